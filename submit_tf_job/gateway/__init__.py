"""The gateway: jobs as resources over HTTP, for schedulers that cannot have this package (docs/gateway.md).

A leaf: nothing imports it but its command. Of its modules `app` and `routes` import fastapi, and `server` imports uvicorn.
"""
