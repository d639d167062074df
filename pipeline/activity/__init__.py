"""Activity streams: what the log was invented for. Page views, a news feed, abuse, operations, daily reports.

`generator` invents activity and sends it; `intake` reads a job's topics with Structured Streaming into a
table of events, exactly once; `views`, `feed`, `abuse` and `ops` turn events into results by pure transforms.
"""
