"""One client connection and its upstream connection as bytes and events: no socket, loop or clock (ADR 37).

A host brings bytes and the time, and does what comes out:

    requests.receive(chunk, now_ns, up, down)   how much of the chunk is dealt with; `up` goes to the broker,
                                                `down` to the client; `requests.waits` is to be done first
    replies.receive(chunk, down, answered)      the same of what the broker sends
    requests.opaque_bytes(), replies...()       so many of the next bytes may pass unseen: `pass_opaque` says
                                                that they have
    session.dials(), connects(), client_ends(), upstream_ends(), tells_upstream(), closes()
                                                moves in the tables of `states`

What a chunk leaves undealt with is brought again later; `stash` is put in front of the next one. Pieces are
slices of the chunk: they are sent or copied before its memory is used again.
"""
