"""People, what they belong to, and the tokens that act for them."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from knox.models import AuthToken
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from portal.accounts.models import Membership, User
from portal.adminsite.site import ReadOnly, administration


class Memberships(TabularInline):  # type: ignore[misc]
    model = Membership
    autocomplete_fields = ("team",)
    extra = 0


@admin.register(User, site=administration)
class People(UserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    inlines = (Memberships,)
    list_display = ("username", "email", "full_name", "is_oncall", "is_superuser", "is_active", "last_login")
    list_filter = ("is_active", "is_oncall", "is_superuser")
    search_fields = ("username", "email", "first_name", "last_name")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Who it is", {"fields": ("first_name", "last_name", "email")}),
        ("What they may do", {"fields": ("is_active", "is_oncall", "is_superuser")}),
        ("When", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "email", "password1", "password2")}),)
    readonly_fields = ("last_login", "date_joined")
    actions = ("drop_second_factor",)

    @admin.display(description="Name", ordering="last_name")
    def full_name(self, user: User) -> str:
        return user.get_full_name()

    @admin.action(description="Take the second factor off (its owner has lost it)")
    def drop_second_factor(self, request: HttpRequest, chosen: QuerySet[User]) -> None:
        held = Authenticator.objects.filter(user__in=chosen)
        people = held.values("user").distinct().count()
        for user in chosen.filter(pk__in=held.values("user")):
            self.log_change(request, user, "Took the second factor off.")
        held.delete()
        messages.success(request, f"{people} {'person signs' if people == 1 else 'people sign'} in without it now.")

    def save_model(self, request: HttpRequest, user: User, form: Any, change: bool) -> None:
        """Django's own flag for its administration follows ours."""
        user.is_staff = user.is_superuser
        super().save_model(request, user, form, change)


@admin.register(Membership, site=administration)
class MembershipsList(ModelAdmin):  # type: ignore[misc]
    list_display = ("user", "team", "is_admin")
    list_filter = ("is_admin",)
    list_select_related = ("user", "team")
    search_fields = ("user__username", "user__email", "team__name")
    autocomplete_fields = ("user", "team")


@admin.register(AuthToken, site=administration)
class Tokens(ReadOnly):
    """Made by their owners; revoked here, one or many. Of the secret only a hash is kept, and its beginning shown."""

    list_display = ("user", "begins_with", "created", "expiry", "good")
    list_select_related = ("user",)
    search_fields = ("user__username", "user__email")
    date_hierarchy = "created"
    fields = ("user", "created", "expiry")

    @admin.display(description="Hash begins with")
    def begins_with(self, token: AuthToken) -> str:
        return str(token.digest[:16])

    @admin.display(boolean=True)
    def good(self, token: AuthToken) -> bool:
        return token.expiry is None or token.expiry > timezone.now()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True
