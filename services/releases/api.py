"""The releases API: one router over the parts in `routes`."""

from fastapi import APIRouter

from services.releases.routes import bundles, ddi, device, fleet, keys, layers, rollouts

router = APIRouter()
for part in (device, bundles, rollouts, layers, fleet, keys, ddi):
    router.include_router(part.router)
