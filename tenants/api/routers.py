"""How the routers of the API are made."""

from fastapi import APIRouter


def api_router(prefix: str, tag: str) -> APIRouter:
    """A router whose operations are called what their functions are."""
    return APIRouter(prefix=prefix, tags=[tag], generate_unique_id_function=lambda route: route.name)
