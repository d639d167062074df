"""The decoding process of one instance: jobs come from the socket that is its standard input.

What a tenant wrote, schemas and records both, may take any time and memory in here: the kernel ends the
process beyond its bounds, and whoever asks knows by the answers which field that was.
"""

import os
import resource
import signal
import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from runtime.protobuf_schemas import BadSchema, Undecodable
from tenants.decoding.messages import LENGTH, Field, Job, Ready, Told, framed
from tenants.decoding.schemas import Decode, decoder_of, json_of
from tenants.rules.decoding import FieldMask

MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Addresses of a decoding process; what it needs of itself are some 300 MiB, of which 45 are in use."""
FIELD_CPU_MS_MAX: Final = 250
"""CPU time of decoding one key or value."""
SCHEMA_CPU_MS_MAX: Final = 1_000
"""CPU time of reading one schema."""
TEXT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of JSON that one key or value becomes."""
_FILE_BYTES_MAX: Final = 8 * 1024 * 1024
_FILES_MAX: Final = 64
_NICENESS: Final = 5
_TOO_LARGE: Final = f"as JSON it is larger than {TEXT_BYTES_MAX} bytes"


def serve(peer: socket.socket) -> None:
    """Work until the other side is gone."""
    decoders: dict[str, Decode] = {}
    take = msgspec.msgpack.Decoder(Job)
    with peer.makefile("rb") as source:
        while len(head := source.read(LENGTH.size)) == LENGTH.size:
            job = take.decode(source.read(LENGTH.unpack(head)[0]))
            problems = {}
            for key, schema in job.schemas.items():
                _allow(SCHEMA_CPU_MS_MAX)
                try:
                    decoders[key] = decoder_of(schema)
                except BadSchema as fault:
                    problems[key] = str(fault)
                except MemoryError:
                    problems[key] = "it takes more memory than there is for one"
            peer.sendall(framed(Ready(problems)))
            for field in job.fields:
                _allow(FIELD_CPU_MS_MAX)
                peer.sendall(framed(_told(decoders, field, job.masked)))
            _allow(0)


def _allow(cpu_ms: int) -> None:
    """The process ends (SIGPROF) when it has used so much more; 0: as much as it takes."""
    signal.setitimer(signal.ITIMER_PROF, cpu_ms / 1000)


def _told(decoders: dict[str, Decode], field: Field, masked: Sequence[str]) -> Told:
    try:
        problem = ""
        if field.schema:
            document, problem = decoders[field.schema](field.data, field.has_indexes)
        else:
            document = json_of(field.data)
        if masked:
            document = FieldMask(masked).apply(document)
        text = msgspec.json.encode(document)
    except Undecodable as fault:
        return Told(None, str(fault))
    except MemoryError:
        return Told(None, "it takes more memory than there is for one message")
    except (msgspec.MsgspecError, RecursionError, OverflowError, TypeError, ValueError):
        return Told(None, "what it holds cannot be written as JSON")
    return Told(text, problem) if len(text) <= TEXT_BYTES_MAX else Told(None, _TOO_LARGE)


def main() -> None:
    """The child."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES_MAX, _FILE_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_MAX, _FILES_MAX))
    with socket.socket(fileno=0) as peer:
        try:
            serve(peer)
        except (BrokenPipeError, ConnectionResetError):
            return  # the console is gone


if __name__ == "__main__":
    main()
