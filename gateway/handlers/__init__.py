"""One module per API that needs more than the rewrite derived from the schema.

A module has `on_request(call, request)`, which answers with an `Outcome` or a coroutine of one, and, where
replies need more too, `on_response(call, response)`. Both see the tenant's names. `take_frame(call, frame,
out)` comes before decoding and is True when it has dealt with the request. Handlers never import each other.
"""
