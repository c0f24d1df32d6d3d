"""The lab client outlives processes that die, hang, babble or are not there."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from contracts.lab import LabClient, LabDied, LabError, LabProtocolError, LabTimeout, LabUnavailable

HELLO = """
import json, struct, sys
def send(header):
    text = json.dumps({"blobs": [], "arrays": [], **header}).encode()
    sys.stdout.buffer.write(struct.pack("<I", len(text)) + text); sys.stdout.buffer.flush()
def receive():
    (n,) = struct.unpack("<I", sys.stdin.buffer.read(4)); header = json.loads(sys.stdin.buffer.read(n))
    for size in header["blobs"]: sys.stdin.buffer.read(size)
    return header
receive()
info = {"protocol": 1, "device_class": "x", "engine": "e", "driver": "1", "array_model": "m"}
send({"ok": True, "info": info})
"""


def board(then: str, **options: float) -> LabClient:
    return LabClient([sys.executable, "-c", HELLO + then], **options)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(LabUnavailable, match="no-such-lab"), LabClient(["/nowhere/no-such-lab"]):
        pass


def test_an_empty_command_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="empty"):
        LabClient([])


def test_a_process_that_dies_at_start_is_quoted() -> None:
    dying = LabClient([sys.executable, "-c", "import sys; sys.exit('no board on /dev/board0')"])
    with pytest.raises(LabDied, match=r"(?s)status 1.*no board on /dev/board0"), dying:
        pass


def test_a_process_that_dies_in_a_run_is_quoted_and_the_client_is_over() -> None:
    with board("receive(); sys.stderr.write('bus error'); sys.stderr.flush(); import os; os._exit(7)") as lab:
        with pytest.raises(LabDied, match=r"(?s)status 7.*bus error"):
            lab.run("model", np.zeros((1, 2, 2, 3), np.uint8))
        assert lab.pid is None
        with pytest.raises(LabError, match="not running"):
            lab.profiles()


def test_a_process_that_dies_while_a_large_request_is_written_is_noticed() -> None:
    with board("sys.exit(5)") as lab, pytest.raises(LabDied, match="status 5"):
        lab.run("model", np.zeros((1, 1000, 1000, 3), np.uint8))


def test_a_process_that_hangs_is_ended_in_time() -> None:
    began = time.monotonic()
    with board("receive(); import time; time.sleep(60)", timeout_s=0.5) as lab:
        with pytest.raises(LabTimeout, match="did not answer in time"):
            lab.profiles()
        assert time.monotonic() - began < 20


def test_a_process_that_reads_nothing_is_ended_in_time() -> None:
    with board("import time; time.sleep(60)", timeout_s=0.5) as lab, pytest.raises(LabTimeout):
        lab.run("model", np.zeros((1, 1000, 1000, 3), np.uint8))


@pytest.mark.parametrize(
    "then",
    [
        "receive(); sys.stdout.write('Loading board support package...'); sys.stdout.flush()",
        "receive(); sys.stdout.buffer.write(struct.pack('<I', 2**32 - 1)); sys.stdout.flush()",
    ],
)
def test_babble_on_standard_output_is_a_protocol_error(then: str) -> None:
    with board(then + "; import time; time.sleep(60)") as lab, pytest.raises(LabProtocolError):
        lab.profiles()


def test_another_protocol_version_is_refused() -> None:
    speaking = HELLO.replace('"protocol": 1', '"protocol": 99')
    with pytest.raises(LabProtocolError, match="99"), LabClient([sys.executable, "-c", speaking]):
        pass


def test_frames_of_another_form_never_reach_the_device() -> None:
    with board("receive()") as lab:
        for frames in (
            np.zeros((2, 2, 3), np.uint8),
            np.zeros((1, 2, 2, 3)),
            np.zeros((0, 2, 2, 3), np.uint8),
        ):
            with pytest.raises(ValueError, match="uint8"):
                lab.run("model", frames)
