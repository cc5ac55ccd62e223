"""How the administration looks: its name and what its side bar leads to."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy

ACCENT = {
    "50": "#ebedfb",
    "100": "#dcdff9",
    "200": "#bcc7ff",
    "300": "#9cadff",
    "400": "#7486ee",
    "500": "#5164dc",
    "600": "#3446c4",
    "700": "#2b3aa8",
    "800": "#26349b",
    "900": "#202a72",
    "950": "#171d4d",
}
"""The portal's accent (static/css/tokens.css) in the steps that the administration's frame asks for."""


def _entry(title: str, icon: str, name: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(name)}


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Gangway administration",
    "SITE_HEADER": "Gangway",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("img/mark.svg")}],
    "COLORS": {"primary": ACCENT},
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "SIDEBAR": {
        "show_search": False,
        "navigation": [
            {
                "title": "Who",
                "items": [
                    _entry("People", "person", "admin:accounts_user_changelist"),
                    _entry("Memberships", "groups", "admin:accounts_membership_changelist"),
                    _entry("Teams", "account_tree", "admin:quotas_quotanode_changelist"),
                    _entry("API tokens", "key", "admin:knox_authtoken_changelist"),
                ],
            },
            {
                "title": "What",
                "items": [
                    _entry("Hosts", "dns", "admin:nodes_node_changelist"),
                    _entry("Join tokens", "add_link", "admin:nodes_jointoken_changelist"),
                    _entry("Policy", "tune", "admin:scheduler_policyrevision_changelist"),
                ],
            },
        ],
    },
}
