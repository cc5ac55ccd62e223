"""The site with everything that it shows: the portal's addresses take it from here."""

from portal.adminsite import fleet, people, policy
from portal.adminsite.site import administration

__all__ = ["administration", "fleet", "people", "policy"]
