"""What tests know of Apache Kafka's APIs is what its jar says."""

import json
import re
import zipfile
from pathlib import Path

import pytest

from ctl.kafka.jars import DEFAULT_VERSION, class_path
from tests.tidy.api_table import APACHE, Api

pytestmark = pytest.mark.java

_COMMENT = re.compile(r"(?m)//.*$")


def test_the_highest_versions_are_those_of_the_jar() -> None:
    jar = Path(class_path(DEFAULT_VERSION).removesuffix("/*")) / f"kafka-clients-{DEFAULT_VERSION}.jar"
    found = []
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if not re.fullmatch(r"common/message/\w+Request\.json", name):
                continue
            message = json.loads(_COMMENT.sub("", opened.read(name).decode()))
            if message["validVersions"] == "none" or "broker" not in message["listeners"]:
                continue
            highest = int(message["validVersions"].rpartition("-")[2])
            unstable = message.get("latestVersionUnstable", False)
            found.append(
                Api(message["apiKey"], message["name"].removesuffix("Request"), highest - bool(unstable))
            )
    assert sorted(found) == list(APACHE)
