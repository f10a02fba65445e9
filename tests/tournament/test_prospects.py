"""Which pods rest while there is no room for all."""

from __future__ import annotations
