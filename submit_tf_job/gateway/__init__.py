"""The REST gateway: jobs as resources over HTTP, for schedulers without this package
(docs/gateway.md).

Only the command `gateway` imports this package. In it, `app` and `routes` import fastapi, and
`server` imports uvicorn.
"""
