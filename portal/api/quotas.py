"""`quotas`: the tree in force."""

from __future__ import annotations

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.answers import QuotaRow, Quotas
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from quotas import selectors
from quotas.rows import to_rows


class QuotaTree(Endpoint):
    @describe("getQuotas", "The quota tree in force", Quotas)
    def get(self, request: Request) -> Response:
        tree = selectors.tree()
        rows = msgspec.convert(to_rows(tree), list[QuotaRow])
        return Response(Quotas(tree.version, rows), headers={"ETag": f'"{tree.version}"'})
