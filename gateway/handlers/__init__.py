"""One module per API that needs more than the rewrite derived from the schema.

A module has `on_request(call, request)`, which answers with an `Outcome`, or with `Later` when somebody else
is asked first: its work gets what it uses by name (`gateway/session/deps.py`). Where replies need more too,
there is `on_response(call, response)`. Both see the tenant's names. `take_frame(call, frame)` comes before
decoding and is None when that is needed. Handlers never import each other, and know no connection.
"""
