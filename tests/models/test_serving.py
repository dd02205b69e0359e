"""The plan of ``medvrag serve``: its sums, its refusals, its safety; and servers really started and stopped."""

from __future__ import annotations

import base64
import io
import json
import os
import queue
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.models.image_tokens import image_tokens
from medvrag_core.models.serving import run as serving_run
from medvrag_core.models.serving.memory import ARCHITECTURES, parameters, room, weight_bytes
from medvrag_core.models.serving.options import NO_DOMAIN
from medvrag_core.models.serving.plan import Server, serving_plan
from medvrag_core.models.serving.text import plan_text
from medvrag_core.profiles.load import load_profile, profile_names
from medvrag_core.settings import looks_like_a_key

REPO = Path(__file__).resolve().parents[2]
CANARY = "sk-canary-0123456789abcdefghij"
VLLM_PYTHON = os.environ.get("MEDVRAG_VLLM_PYTHON")
needs_vllm = pytest.mark.skipif(VLLM_PYTHON is None, reason="MEDVRAG_VLLM_PYTHON names no Python with vLLM")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def servers_of(name: str, **overrides: Any) -> dict[str, Server]:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return {server.role: server for server in serving_plan(load_profile(name, dotted)).servers}


def value_of(server: Server, flag: str) -> str:
    return server.argv[server.argv.index(flag) + 1]


# --- sums -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [
        # Counted by transformers 5.19 over models without memory; test_sizes_agree_with_transformers counts anew.
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("Qwen/Qwen3-4B", 4_022_468_096),
        ("Qwen/Qwen2.5-VL-32B-Instruct", 33_452_718_336),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 8_292_166_656),
        ("Qwen/Qwen2.5-VL-3B-Instruct", 3_754_622_976),
    ],
)
def test_parameters_are_those_of_the_published_models(name: str, count: int) -> None:
    assert parameters(ARCHITECTURES[name]) == count


@given(
    name=st.sampled_from(sorted(ARCHITECTURES)),
    gpus=st.sampled_from([1, 2, 4]),
    share=st.floats(0.1, 0.9),
    more=st.floats(0.0, 0.09),
)
def test_more_memory_never_holds_fewer_tokens(name: str, gpus: int, share: float, more: float) -> None:
    sizes = ARCHITECTURES[name]
    small, large = (room(sizes, gpus, gpu_gib=79, share=s, workspace_gib=4) for s in (share, share + more))
    assert small.tokens <= large.tokens
    assert weight_bytes(sizes, 2 * gpus) < weight_bytes(sizes, gpus)
    assert small.weights_gib + small.workspace_gib + small.cache_gib == pytest.approx(small.share_gib)
    assert small.tokens * small.kib_a_token <= max(0.0, small.cache_gib) * 1024**2


def test_all_memory_of_a_gpu_is_accounted_for() -> None:
    for name in ("a100", "gpu1"):
        profile = load_profile(name)
        plan = serving_plan(profile)
        for phase in ("summaries", "questions"):
            for gpu in range(4):
                rooms = [s.room for s in plan.of_phase(phase) if gpu in s.gpus]
                assert sum(r.share_gib for r in rooms if r is not None) <= profile.serve.gpu_gib


@needs_vllm
def test_sizes_agree_with_transformers() -> None:
    code = """
import json, sys, torch
from transformers import (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration as VL, Qwen3Config,
                          Qwen3ForCausalLM as Dense, Qwen3MoeConfig, Qwen3MoeForCausalLM as Moe)
counts = {}
with torch.device("meta"):
    for name, a in json.load(sys.stdin).items():
        text = dict(num_hidden_layers=a["layers"], hidden_size=a["hidden"], num_attention_heads=a["heads"],
                    num_key_value_heads=a["kv_heads"], vocab_size=a["vocabulary"], tie_word_embeddings=a["tied"])
        if a["vision_intermediate"]:
            rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
            model = VL(Qwen2_5_VLConfig(
                text_config=text | {"intermediate_size": a["intermediate"], "rope_parameters": rope},
                vision_config=dict(depth=32, hidden_size=1280, num_heads=16, out_hidden_size=a["hidden"],
                                   intermediate_size=a["vision_intermediate"]),
                tie_word_embeddings=a["tied"]))
        elif a["experts"]:
            model = Moe(Qwen3MoeConfig(**text, head_dim=a["head_dim"], num_experts=a["experts"],
                                       moe_intermediate_size=a["intermediate"]))
        else:
            model = Dense(Qwen3Config(**text, head_dim=a["head_dim"], intermediate_size=a["intermediate"]))
        if a["tied"]:
            model.tie_weights()
        counts[name] = sum(p.numel() for p in model.parameters())
print(json.dumps(counts))
"""
    sizes = {name: a.model_dump(mode="json") for name, a in ARCHITECTURES.items()}
    assert in_vllm_python(code, sizes) == {name: parameters(a) for name, a in ARCHITECTURES.items()}


# --- the plan ---------------------------------------------------------------------------


def test_the_judge_is_said_not_to_be_started() -> None:
    plan = serving_plan(load_profile("a100"))
    assert [(remote.role, remote.model) for remote in plan.remote] == [("judge", "google/gemma-3-27b-it")]
    assert "google/gemma-3-27b-it at http://127.0.0.1:8003/v1 is not started here" in plan_text(plan)
    assert serving_plan(load_profile("a100", {"judge_model.model": ""})).remote == ()


def unwrapped(text: str) -> str:
    """The comments of a plan as one line."""
    return " ".join(text.replace("\n#", " ").split())


def test_helper_and_generator_are_asked_at_a_server_that_is_there() -> None:
    for name in ("a100", "gpu1"):
        plan = serving_plan(load_profile(name))
        model = next(server.model for server in plan.servers if server.role == "filter")
        assert [(s.role, s.settings, s.model, s.by, s.unfit) for s in plan.shared] == [
            ("helper", "helper_model", model, "filter", ""),
            ("generator", "generator_model", model, "filter", ""),
        ]
        assert "does not fit" not in unwrapped(plan_text(plan))
        assert f"helper: helper_model is {model} at http://127.0.0.1:8001/v1, the filter server" in plan_text(plan)
    assert serving_plan(load_profile("a100", {"helper.name": "embedded", "helper.generator": "embedded"})).shared == ()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"filter_model.model": "Qwen/Qwen3-4B"}, "set generator_model.model=Qwen/Qwen3-4B"),
        ({"filter_model.context_tokens": 16_384}, "set generator_model.context_tokens=16384"),
        ({"generator_model.revision": COMMIT}, "set generator_model.revision="),
        ({"generator_model.base_url": "http://127.0.0.1:8002/v1"}, "stopped before questions are answered"),
    ],
)
def test_a_server_that_cannot_do_the_task_is_told_and_stops_no_other_system(
    overrides: dict[str, Any], words: str
) -> None:
    plan = serving_plan(load_profile("a100", overrides))
    assert words in plan.shared[-1].unfit and plan.shared[-1].role == "generator"
    assert f"this does not fit: {plan.shared[-1].unfit}" in unwrapped(plan_text(plan))
    assert {server.role for server in plan.of_phase("questions")} == {"filter", "reader"}


def test_a_generator_elsewhere_is_said_not_to_be_started() -> None:
    elsewhere = {"generator_model.base_url": "http://127.0.0.1:8009/v1", "generator_model.model": "meta/llama"}
    plan = serving_plan(load_profile("a100", elsewhere))
    assert [remote.role for remote in plan.remote] == ["generator", "judge"]
    assert "generator: meta/llama at http://127.0.0.1:8009/v1 is not started here" in unwrapped(plan_text(plan))
    assert "no address yet" in plan_text(serving_plan(load_profile("cpu", {"helper.name": "llm"})))
    assert "helper_model.base_url: not set yet" in plan_text(
        serving_plan(load_profile("hosted", {"helper.name": "llm"}))
    )


def test_the_node_of_the_paper() -> None:
    plan = serving_plan(load_profile("a100"))
    together = {server.role: server for server in plan.of_phase("questions")}
    assert together.keys() == {"filter", "reader"}
    assert not set(together["filter"].gpus) & set(together["reader"].gpus)
    assert (together["filter"].port, together["reader"].port) == (8001, 8000)
    (summary,) = plan.of_phase("summaries")
    assert (summary.model, value_of(summary, "--data-parallel-size")) == ("Qwen/Qwen2.5-VL-7B-Instruct", "4")
    assert any("not ColQwen2.5" in line for line in plan.in_process)
    assert any("GPU 0" in line for line in plan.in_process)


@pytest.mark.parametrize("name", ["a100", "gpu1"])
def test_flags_follow_the_profile(name: str) -> None:
    profile = load_profile(name, {"filter_model.context_tokens": 16_384, "reader_model.max_images": 12})
    servers = {server.role: server for server in serving_plan(profile).servers}
    reader, judge = servers["reader"], servers["filter"]
    assert value_of(judge, "--max-model-len") == "16384"
    assert json.loads(value_of(reader, "--limit-mm-per-prompt")) == {"image": 12, "video": 0}
    assert json.loads(value_of(reader, "--mm-processor-kwargs")) == {
        "min_pixels": profile.reader_model.min_pixels,
        "max_pixels": profile.reader_model.max_pixels,
    }
    assert "--limit-mm-per-prompt" not in judge.argv
    for server in servers.values():
        assert json.loads(value_of(server, "--structured-outputs-config"))["disable_any_whitespace"] is True
        assert value_of(server, "--generation-config") == "vllm"
        assert value_of(server, "--max-num-seqs") == str(profile.calls.in_flight)
        assert f"http://{server.host}:{server.port}/v1" == server.base_url
        assert {option.flag for option in server.options} == {part for part in server.argv if part.startswith("--")}
        assert all(option.reason for option in server.options)


def test_thinking_and_its_parser_go_together() -> None:
    off, on = (servers_of("a100", filter_model__thinking=thinking)["filter"] for thinking in (False, True))
    assert json.loads(value_of(off, "--default-chat-template-kwargs")) == {"enable_thinking": False}
    assert "--reasoning-parser" not in off.argv
    assert value_of(on, "--reasoning-parser") == "qwen3"


def test_weights_are_pinned_where_a_commit_is_set_and_never_made_up() -> None:
    pinned = servers_of("a100", reader_model__revision=COMMIT)["reader"]
    assert value_of(pinned, "--revision") == value_of(pinned, "--tokenizer-revision") == COMMIT
    plan = serving_plan(load_profile("a100", {"reader_model.revision": COMMIT}))
    assert ("hf", "download", pinned.model, "--revision", COMMIT) in plan.downloads
    assert pinned.model not in plan.unpinned
    assert "Qwen/Qwen3-30B-A3B" in plan.unpinned
    assert not re.search(r"\b[0-9a-f]{40}\b", plan_text(serving_plan(load_profile("a100"))))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"reader_model.revision": "main"}, "'main' is no commit"),
        ({"serve.reader_gpus": [2]}, "'reader_model': .* GiB of weights"),
        ({"serve.reader_gpus": [1, 2, 3]}, "40 heads, 3 GPUs"),
        ({"serve.gpu_gib": 40}, "less than one call"),
        ({"serve.filter_share": 0.95}, "want .* GiB of GPU 0"),
        ({"serve.reader_gpus": [0, 1]}, "want .* GiB of GPU 0"),
        ({"reader_model.base_url": "http://127.0.0.1:8001/v1"}, "share a port"),
        ({"reader_model.base_url": ""}, "'reader_model.base_url' is empty"),
        ({"reader_model.base_url": "http://0.0.0.0:8000/v1"}, "not a server that can be started here"),
        ({"reader_model.base_url": "http://gpu.example.org:8000/v1"}, "not a server that can be started here"),
        ({"reader_model.base_url": "http://127.0.0.1.example.org:8000/v1"}, "not a server that can be started here"),
        ({"reader_model.base_url": "https://127.0.0.1:8000/v1"}, "not a server that can be started here"),
        ({"reader_model.max_images": 9}, "10 pages are shown"),
        ({"reader_model.model": "Qwen/Qwen3-4B"}, "cannot see pages"),
        ({"filter_model.context_tokens": 65_536}, "takes 40,960"),
    ],
)
def test_what_cannot_work_is_refused_with_the_field(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        serving_plan(load_profile("a100", overrides))


def test_a_smaller_gpu_needs_smaller_models() -> None:
    with pytest.raises(SettingsError, match="'reader_model'"):
        servers_of("gpu1", serve__gpu_gib=44, serve__workspace_gib=3)
    small = servers_of(
        "gpu1",
        serve__gpu_gib=44,
        serve__workspace_gib=3,
        serve__reader_share=0.4,
        reader_model__model="Qwen/Qwen2.5-VL-3B-Instruct",
    )
    assert small.keys() == {"summary", "filter", "reader"}


def test_a_model_of_unknown_size_is_served_and_said_to_be_unknown() -> None:
    reader = servers_of("a100", reader_model__model="someone/else")["reader"]
    assert reader.room is None
    assert "not known" in reader.arithmetic[0]
    assert "--limit-mm-per-prompt" in reader.argv


# --- safety -----------------------------------------------------------------------------


def commands(text: str) -> list[tuple[dict[str, str], list[str]]]:
    """Commands of a shell script as variables and words; comments go."""
    found = []
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*$", "", text)).splitlines():
        words = shlex.split(line)
        count = next((n for n, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)), len(words))
        if words:
            found.append((dict(word.split("=", 1) for word in words[:count]), words[count:]))
    return found


@pytest.mark.parametrize("name", profile_names())
def test_every_printed_command_is_safe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MEDVRAG_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "VLLM_API_KEY"):
        monkeypatch.setenv(variable, CANARY)
    plan = serving_plan(load_profile(name))
    text = plan_text(plan)
    assert CANARY not in text + plan.model_dump_json()
    assert not looks_like_a_key(text)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    served = [(variables, words) for variables, words in commands(text) if words[:2] == ["vllm", "serve"]]
    assert [words for _, words in served] == [list(server.argv) for server in plan.servers]
    for (variables, words), server in zip(served, plan.servers, strict=True):
        assert words[words.index("--host") + 1] in {"127.0.0.1", "::1"}
        assert words[words.index("--allowed-media-domains") + 1] == NO_DOMAIN
        assert words[words.index("--allowed-media-domains") + 2].startswith("--")
        for flag in ("--api-key", "--trust-remote-code", "--allowed-local-media-path", "--enable-mm-embeds", "--uds"):
            assert not any(word.split("=")[0] == flag for word in words)
        assert variables.pop("VLLM_API_KEY") == f"${{{server.key_env}-}}"
        assert variables == server.environment
        assert variables["VLLM_NO_USAGE_STATS"] == variables["HF_HUB_OFFLINE"] == "1"
    for _, words in commands(text):
        assert words[0] in {"vllm", "hf", "read"}


def test_hosted_prints_no_server_but_what_to_set() -> None:
    plan = serving_plan(load_profile("hosted"))
    text = plan_text(plan)
    assert plan.servers == ()
    assert "vllm" not in text
    assert [words for _, words in commands(text)] == [
        ["read", "-rs", "OPENAI_API_KEY", "&&", "export", "OPENAI_API_KEY"]
    ]
    for word in ("base_url", "hosted", "key_env", "reader_model.model"):
        assert word in text


@needs_vllm
def test_vllm_takes_every_flag() -> None:
    code = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
seen = []
for argv in json.load(sys.stdin):
    known = parser.parse_args(argv[2:])
    seen.append([known.model_tag, known.host, known.allowed_media_domains, known.trust_remote_code,
                 known.structured_outputs_config.disable_any_whitespace, known.api_key])
print(json.dumps(seen))
"""
    profiles = [load_profile("a100", {"filter_model.thinking": True, "reader_model.revision": COMMIT})]
    profiles += [load_profile(name) for name in profile_names()]
    servers = [server for profile in profiles for server in serving_plan(profile).servers]
    seen = in_vllm_python(code, [server.argv for server in servers])
    assert seen == [[server.model, "127.0.0.1", [NO_DOMAIN], False, True, None] for server in servers]


@needs_vllm
def test_vllm_fetches_what_a_request_names_unless_no_domain_is_allowed() -> None:
    code = """
import http.server, json, sys, threading
from vllm.multimodal.media.connector import MediaConnector
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen.append(self.path); self.send_error(404)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
counts = []
for domains in [json.load(sys.stdin), None]:
    try:
        MediaConnector(allowed_media_domains=domains).fetch_image(f"http://127.0.0.1:{server.server_port}/x.png")
    except Exception:
        counts.append(len(seen))
print(json.dumps(counts))
"""
    assert in_vllm_python(code, [NO_DOMAIN]) == [0, 1]


def in_vllm_python(code: str, given: object) -> Any:
    """What code in vLLM's environment prints as its last line; ``given`` is its input as JSON."""
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    site = str(Path(__file__).parent / "vllm_cpu" / "site")
    done = subprocess.run(
        [str(VLLM_PYTHON), "-c", code],
        input=json.dumps(given),
        env=os.environ | quiet | {"PYTHONPATH": site},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout.splitlines()[-1])


# --- profiles and the book --------------------------------------------------------------


@pytest.mark.parametrize("name", ["a100", "gpu1", "hosted"])
def test_profiles_say_that_they_were_not_run(name: str) -> None:
    assert "not yet run on a gpu" in load_profile(name).note.lower()


def test_gpu1_is_smaller_and_says_that_it_is_not_the_paper() -> None:
    large, small = servers_of("a100"), servers_of("gpu1")
    for role, server in small.items():
        assert parameters(ARCHITECTURES[server.model]) < parameters(ARCHITECTURES[large[role].model]) / 2
        assert server.model.split("-")[0] == large[role].model.split("-")[0]
    assert "not the paper's configuration" in load_profile("gpu1").note


def test_commands_of_the_book_are_those_of_the_plan() -> None:
    page = (REPO / "book" / "serving.md").read_text(encoding="utf-8")
    printed = plan_text(serving_plan(load_profile("a100")))
    blocks = re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
    shown = [block for block in blocks if "vllm serve" in block]
    assert shown
    for block in shown:
        assert block.strip() in printed
    sums = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    said = [line for server in servers_of("a100").values() for line in server.arithmetic]
    assert {line for block in sums for line in block.splitlines()} <= set(said)
    for role, server in servers_of("a100").items():
        assert f"| {role} | `{server.model}` | {', '.join(map(str, server.gpus))} | {server.port} |" in page


def test_the_endpoint_of_the_book_is_understood(tmp_path: Path) -> None:
    page = (REPO / "book" / "serving.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "mine.yaml").write_text(block)
    profile = load_profile(str(tmp_path / "mine.yaml"))
    plan = serving_plan(profile)
    assert [remote.role for remote in plan.remote] == ["filter", "reader"]
    assert {(remote.base_url, remote.key_env) for remote in plan.remote} == {
        ("https://llm.example.org/v1", "MY_SERVICE_KEY")
    }
    assert "read -rs MY_SERVICE_KEY && export MY_SERVICE_KEY" in plan_text(plan)
    assert profile.filter_model.temperature == 0.0
    assert profile.reader_model.server == profile.filter_model.server == "hosted"


@pytest.mark.parametrize("number", range(2))
def test_commands_of_the_book_run_as_printed(number: int) -> None:
    page = (REPO / "book" / "serving.md").read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.findall(r"medvrag serve .*--set [^`\n]*", page)[number]
    words = shlex.split(line)
    pairs = [word.split("=", 1) for before, word in pairwise(words) if before == "--set"]
    overrides = {key: yaml.safe_load(value) for key, value in pairs}
    profile = load_profile(words[words.index("--profile") + 1], overrides)
    if "serve.reader_gpus" in overrides:
        with pytest.raises(SettingsError, match="less than one call"):
            serving_plan(profile)
    else:
        assert serving_plan(profile).servers


# --- servers, really started ------------------------------------------------------------

STAND_IN = """#!{python}
# Stands in for vLLM: listens where it is told to, lists its model, and has a child as vLLM has.
import http.server, json, os, pathlib, subprocess, sys, time
argv = sys.argv
role = argv[2].split("/")[-1]
option = lambda name: argv[argv.index(name) + 1]
folder = pathlib.Path(os.environ["STAND_IN_FOLDER"])
mode = json.loads(os.environ["STAND_IN_MODES"]).get(role, "serves")
if mode == "dies":
    print("CUDA out of memory, key", os.environ["VLLM_API_KEY"], flush=True)
    sys.exit(7)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
seen = {{"argv": argv, "key": os.environ["VLLM_API_KEY"], "gpus": os.environ["CUDA_VISIBLE_DEVICES"],
        "pids": [os.getpid(), child.pid]}}
(folder / (role + ".json")).write_text(json.dumps(seen))
print("stand-in for", role, flush=True)
if mode == "never":
    time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        key = os.environ["VLLM_API_KEY"]
        allowed = not key or self.headers.get("Authorization") == "Bearer " + key
        self.send_response(200 if allowed and self.path == "/v1/models" else 401)
        self.end_headers()
        self.wfile.write(json.dumps({{"data": [{{"id": "other" if mode == "other" else argv[2]}}]}}).encode())
    def log_message(self, *_): pass
time.sleep(0.3)
http.server.HTTPServer((option("--host"), int(option("--port"))), Handler).serve_forever()
"""
FILTER, READER = "Qwen3-4B", "Qwen2.5-VL-7B-Instruct"


class Bench:
    """A profile on free ports, a stand-in for vLLM, and a record of every process that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executable = folder / "bin" / "vllm"
        self.executable.parent.mkdir()
        self.executable.write_text(STAND_IN.format(python=sys.executable))
        self.executable.chmod(0o755)
        self.ports = free_ports(2)
        self.profile = folder / "mine.yaml"
        self.profile.write_text(
            json.dumps(
                {
                    "extends": "gpu1",
                    "filter_model": {"base_url": f"http://127.0.0.1:{self.ports[0]}/v1"},
                    "reader_model": {"base_url": f"http://127.0.0.1:{self.ports[1]}/v1"},
                }
            )
        )

    def start(self, *arguments: str, **modes: str) -> subprocess.Popen[str]:
        named = {{"filter": FILTER, "reader": READER}[role]: mode for role, mode in modes.items()}
        environment = {
            "MEDVRAG_VLLM": str(self.executable),
            "STAND_IN_FOLDER": str(self.folder),
            "STAND_IN_MODES": json.dumps(named),
            "MEDVRAG_API_KEY": CANARY,
        }
        command = [sys.executable, "-m", "medvrag_core.cli", "serve", "--run", "--profile", str(self.profile)]
        return subprocess.Popen(
            [*command, "--logs", str(self.folder / "logs"), *arguments],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def seen(self, model: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{model}.json").read_text())
        return found

    def left(self) -> list[int]:
        """Processes of the stand-ins that still run; one that only waits to be collected does not."""
        pids = [pid for path in self.folder.glob("*.json") for pid in json.loads(path.read_text())["pids"]]
        return [pid for pid in pids if psutil.pid_exists(pid) and running(pid)]


def running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def lines_until(process: subprocess.Popen[str], words: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for pid in made.left():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_run_until_a_signal_and_leave_nothing(bench: Bench, number: signal.Signals) -> None:
    process = bench.start()
    lines = lines_until(process, "all servers answer")
    order = [
        next(n for n, line in enumerate(lines) if words in line) for words in ("filter: answers", "reader: started")
    ]
    assert order == sorted(order), "servers on one GPU start one after the other"
    for model, port in ((FILTER, bench.ports[0]), (READER, bench.ports[1])):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models")
        request.add_header("Authorization", f"Bearer {CANARY}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.loads(answer.read())["data"][0]["id"].endswith(model)
        seen = bench.seen(model)
        assert seen["key"] == CANARY
        assert CANARY not in " ".join(seen["argv"])
        assert seen["gpus"] == "0"
        assert len(seen["pids"]) == 2
    assert len(bench.left()) == 4
    process.send_signal(number)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "all servers are stopped" in rest
    assert bench.left() == []
    written = [path.read_text() for path in (bench.folder / "logs").rglob("*.log")]
    assert len(written) == 2
    assert CANARY not in "".join([*written, *lines, rest])


def test_a_server_that_dies_at_once_is_shown_with_its_log(bench: Bench) -> None:
    process = bench.start(reader="dies")
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "the reader server ended with status 7" in text
    assert "CUDA out of memory" in text
    assert CANARY not in text
    assert bench.left() == []


def test_a_server_that_dies_later_takes_the_others_down(bench: Bench) -> None:
    process = bench.start()
    lines_until(process, "all servers answer")
    os.kill(bench.seen(FILTER)["pids"][0], signal.SIGKILL)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "the filter server ended with status -9" in text
    assert bench.left() == []


def test_a_server_that_never_answers_is_given_up(bench: Bench) -> None:
    process = bench.start("--wait", "2", filter="never")
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "filter: no answer after 2 s" in text
    assert f"stand-in for {FILTER}" in text
    assert bench.left() == []


def test_ctrl_c_while_a_server_loads(bench: Bench) -> None:
    process = bench.start(filter="never")
    lines_until(process, "filter: started")
    while not (bench.folder / f"{FILTER}.json").is_file():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert bench.left() == []


def test_a_stranger_on_the_port_is_not_believed(bench: Bench) -> None:
    process = bench.start(filter="other")
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "serves other, not Qwen/Qwen3-4B" in text
    assert bench.left() == []


def test_a_taken_port_and_a_missing_command_start_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = serving_plan(load_profile(str(bench.profile))).of_phase("questions")
    monkeypatch.setenv(serving_run.EXECUTABLE, str(bench.executable))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", bench.ports[1]))
        taken.listen()
        with pytest.raises(MedvragError, match=f"port {bench.ports[1]} .* is taken"):
            serving_run.run_servers(servers, bench.folder / "logs", wait_s=5, say=print)
    monkeypatch.setenv(serving_run.EXECUTABLE, str(bench.folder / "nothing"))
    with pytest.raises(MedvragError, match="MEDVRAG_VLLM"):
        serving_run.run_servers(servers, bench.folder / "logs", wait_s=5, say=print)
    assert bench.left() == []
    assert not (bench.folder / "logs").exists()


def test_servers_on_different_gpus_start_side_by_side() -> None:
    apart = serving_plan(load_profile("a100")).of_phase("questions")
    shared = serving_plan(load_profile("gpu1")).of_phase("questions")
    assert [len(group) for group in serving_run._side_by_side(apart)] == [2]
    assert [len(group) for group in serving_run._side_by_side(shared)] == [1, 1]


def test_a_phase_without_servers_is_named() -> None:
    with pytest.raises(MedvragError, match=r"'night'.*choose summaries, questions"):
        serving_plan(load_profile("a100")).of_phase("night")
    with pytest.raises(MedvragError, match="it needs none"):
        serving_plan(load_profile("cpu")).of_phase("questions")


@needs_vllm
@pytest.mark.slow
def test_vllm_itself_keeps_what_the_flags_promise(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(__file__).parent / "vllm_cpu"
    site, model = here / "site", bench.folder / "tiny"
    subprocess.run(
        [str(VLLM_PYTHON), here / "make_tiny_qwen.py", model],
        env=os.environ | {"PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"},
        check=True,
        capture_output=True,
    )
    # The CPU build has no command of its own that works.
    bench.executable.write_text(
        f"#!/bin/sh\nshift; model=$1; shift\n"
        f"export PYTHONPATH={site} VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=2\n"
        f'exec {VLLM_PYTHON} -m vllm.entrypoints.openai.api_server --model "$model" "$@"\n'
    )
    monkeypatch.setenv(serving_run.EXECUTABLE, str(bench.executable))
    monkeypatch.setenv("MEDVRAG_API_KEY", CANARY)
    overrides = {
        "filter.ranker": "embedded",
        "encoder.device": "cpu",
        "reader_model.model": str(model),
        "reader_model.context_tokens": 8_192,
        "reader_model.max_pixels": 100_352,
    }
    (server,) = serving_plan(load_profile(str(bench.profile), overrides)).of_phase("questions")
    stop, said = threading.Event(), queue.Queue[str]()
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            serving_run.run_servers([server], bench.folder / "logs", wait_s=400, say=said.put, stop=stop)
        except BaseException as error:
            errors.append(error)
            said.put("ended")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        lines = [said.get(timeout=450)]
        while "answer;" not in lines[-1] and lines[-1] != "ended":
            lines.append(said.get(timeout=450))
        assert lines[-1] != "ended", errors
        group = int(re.findall(r"process group (\d+)", lines[0])[0])
        for process in (psutil.Process(group), *psutil.Process(group).children(recursive=True)):
            assert CANARY not in " ".join(process.cmdline())
            for connection in process.net_connections("inet"):
                assert connection.laddr.ip in {"127.0.0.1", "::1"}
        text = spent(server, 0)
        for count in (1, 10):
            assert spent(server, count) - text == count * (image_tokens(300, 400, max_pixels=100_352) + 2)
        assert "At most 10 image" in refused(server, [picture(300, 400)] * 11)
        outside = {"type": "image_url", "image_url": {"url": f"{server.base_url}/models"}}
        assert NO_DOMAIN in refused(server, [outside])
    finally:
        stop.set()
        thread.join(60)
    assert [type(error) for error in errors] == [KeyboardInterrupt]
    assert not running(group)


def picture(width: int, height: int) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(buffer, "PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def asked(server: Server, parts: list[dict[str, Any]]) -> Any:
    content = [{"type": "text", "text": "page"}, *parts]
    body = {"model": server.model, "messages": [{"role": "user", "content": content}], "max_tokens": 4}
    request = urllib.request.Request(f"{server.base_url}/chat/completions", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {CANARY}")
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def spent(server: Server, pictures: int) -> int:
    return int(asked(server, [picture(300, 400)] * pictures)["usage"]["prompt_tokens"])


def refused(server: Server, parts: list[dict[str, Any]]) -> str:
    with pytest.raises(urllib.error.HTTPError) as error:
        asked(server, parts)
    assert error.value.code == 400
    return error.value.read().decode()
