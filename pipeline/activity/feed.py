"""The news feed: posts fanned out to whoever follows their author now, the newest of them per user.

Posts and follows are never too late for a feed: it is ordered by their times, whenever they arrive.
"""

from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from pipeline.activity.events import FOLLOW, POST, Lane
from pipeline.activity.intake import Fold, Job, Output

FEED_LENGTH: Final = 20
FEED: Final = "feed"
FOLLOWING: Final = "following"


def following(follows: DataFrame) -> DataFrame:
    """The follow graph: follower, followee of the pairs whose newest event is no unfollow."""
    newest = F.max_by("action", F.struct("ts", "event"))
    pairs = follows.groupBy("follower", "followee").agg(newest.alias("action"))
    return pairs.where(F.col("action") == "follow").select("follower", "followee")


def feeds(graph: DataFrame, posts: DataFrame, length: int = FEED_LENGTH) -> DataFrame:
    """user, rank, author, ts, event, text: of each user the newest posts of everybody they follow.

    No author needs more than `length` posts in it, which bounds what the join fans out.
    """
    by_author = Window.partitionBy("author").orderBy(F.desc("ts"), F.desc("event"))
    newest = posts.withColumn("nth", F.row_number().over(by_author)).where(F.col("nth") <= length)
    fanned = graph.join(newest, graph.followee == newest.author)
    by_user = Window.partitionBy("user").orderBy(F.desc("ts"), F.desc("event"))
    return (
        fanned.select(F.col("follower").alias("user"), "author", "ts", "event", "text")
        .withColumn("rank", F.row_number().over(by_user))
        .where(F.col("rank") <= length)
    )


def touched(graph: DataFrame, posts: DataFrame, follows: DataFrame) -> DataFrame:
    """Users whose feed new posts or follows may change."""
    reached = graph.join(posts.select(F.col("author").alias("followee")).distinct(), "followee", "left_semi")
    return reached.select("follower").union(follows.select("follower")).distinct()


def _posts(events: DataFrame) -> DataFrame:
    found = events.where((F.col("topic") == POST.topic) & (F.col("lane") != Lane.DEAD.value))
    # A late one that was there before is there twice.
    return found.select("author", "ts", "event", "text", "batch").dropDuplicates(["ts", "event"])


def _follows(events: DataFrame) -> DataFrame:
    found = events.where((F.col("topic") == FOLLOW.topic) & (F.col("lane") != Lane.DEAD.value))
    return found.select("follower", "followee", "action", "ts", "event", "batch")


def _fold_graph(step: Fold) -> None:
    step.replace(following(_follows(step.events)))


def _fold_feed(step: Fold) -> None:
    graph, known = step.tables.read(FOLLOWING), step.known()
    assert graph is not None, "it is folded before"
    posts = _posts(step.events)
    if known is None:
        step.replace(feeds(graph, posts))
        return
    fresh = F.col("batch") > step.since
    users = touched(graph, posts.where(fresh), _follows(step.events).where(fresh)).persist()
    changed = feeds(graph.join(users, "follower", "left_semi"), posts)
    kept = known.join(users, known.user == users.follower, "left_anti")
    step.replace(kept.unionByName(changed))
    users.unpersist()


JOB: Final = Job(
    name="feed",
    kinds=(POST, FOLLOW),
    waits_for=timedelta(minutes=10),
    outputs=(Output(FOLLOWING, _fold_graph), Output(FEED, _fold_feed)),
    every_s=2.0,
    fold_every_s=10.0,
)
