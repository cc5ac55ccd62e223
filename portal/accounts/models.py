"""People: who they are, which teams they belong to, and what they may do there."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models

from quotas.models import QuotaNode


class User(AbstractUser):
    """A person. An administrator is Django's superuser."""

    email = models.EmailField(unique=True)
    is_oncall = models.BooleanField(default=False, help_text="May cordon, drain and see every team's jobs.")
    teams = models.ManyToManyField(QuotaNode, through="Membership", related_name="members")


class Membership(models.Model):
    """That a person belongs to a team. An admin of an inner node of the tree is one of every team below it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(QuotaNode, on_delete=models.CASCADE, related_name="memberships")
    is_admin = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_membership_a_team")]


class SavedView(models.Model):
    """Filters of the list of jobs that a person gave a name. ``query`` is the address's, without a page."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=1000)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="one_view_a_name")]

    def __str__(self) -> str:
        return self.name
