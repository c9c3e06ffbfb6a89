"""The server: requests are batched, a worker process decodes them, and a page shows what the model does.

    sockets ─► front: HTTP, bounds, documents, scheduler ══ JSON lines ══► worker: text pipelines, engine threads

The front never decodes and never imports torch; the worker can be killed or replaced while requests wait.
"""
