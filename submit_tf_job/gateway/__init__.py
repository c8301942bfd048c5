"""The REST gateway: jobs as resources over HTTP, for schedulers without this package
(docs/gateway.md).

Only its command imports it. Of its modules, `app` and `routes` import fastapi, and `server` imports
uvicorn.
"""
