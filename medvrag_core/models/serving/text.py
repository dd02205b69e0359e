"""The plan of ``medvrag serve`` as text: comments that explain, and commands to copy into a shell."""

from __future__ import annotations

import shlex
import textwrap

from medvrag_core.models.serving.plan import Remote, Server, ServingPlan, Shared

_ABOUT = {
    "summaries": "Page summaries are written offline, once for a corpus; stop this server before the next phase. "
    "MedVRAG does not ask it yet: the summaries it writes are sentences of the page.",
    "questions": "Filter and reader are both asked for each question, so they run together.",
}
_WIDTH = 110


def plan_text(plan: ServingPlan) -> str:
    """A shell script with comments; nothing in it holds a key."""
    blocks = [_comment(f"Profile {plan.profile}. {plan.note}")]
    if plan.servers:
        blocks.append(_comment("Sizes below are arithmetic over published figures; nothing here was run on a GPU."))
    if plan.downloads:
        blocks.append(_downloads(plan))
    blocks.append(_comment("Inside medvrag", *plan.in_process))
    if plan.servers:
        blocks.append(_reasons(plan))
    for phase in dict.fromkeys(server.phase for server in plan.servers):
        servers = plan.of_phase(phase)
        blocks.append(_comment(f"Phase '{phase}'", _ABOUT[phase], *_one_by_one(servers)))
        blocks += [server_text(server) for server in servers]
    hosted = tuple(remote for remote in plan.remote if remote.server == "hosted")
    if plan.shared:
        blocks.append(_comment("Asked at a server that is there already", *map(_shared, plan.shared)))
    blocks += [_not_ours(remote) for remote in plan.remote if remote not in hosted]
    if hosted:
        blocks.append(_hosted(hosted))
    if plan.servers or plan.remote:
        blocks.append(_comment(f"Before a run: medvrag doctor --profile {plan.profile}"))
    else:
        blocks.append(_comment("No model server is needed."))
    return "\n\n".join(blocks)


def server_text(server: Server) -> str:
    """One command, one flag a line, its sums above it."""
    gpus = ", ".join(map(str, server.gpus))
    head = _comment(f"{server.role}: {server.model} on GPU {gpus}, port {server.port}", *server.arithmetic)
    first, *others = [f"{name}={shlex.quote(value)}" for name, value in server.environment.items()]
    lines = [f'{first} VLLM_API_KEY="${{{server.key_env}-}}"', " ".join(others), shlex.join(server.argv[:3])]
    lines += [f"  {shlex.join(filter(None, (option.flag, option.value)))}" for option in server.options]
    return f"{head}\n" + " \\\n".join(lines)


def _reasons(plan: ServingPlan) -> str:
    reasons = {option.flag: option.reason for server in plan.servers for option in server.options}
    wide = max(map(len, reasons))
    return "\n".join(["# Why each flag", *(f"#   {flag:{wide}}  {reason}" for flag, reason in reasons.items())])


def _one_by_one(servers: tuple[Server, ...]) -> tuple[str, ...]:
    gpus = [gpu for server in servers for gpu in server.gpus]
    if len(set(gpus)) == len(gpus):
        return ()
    return ("They share a GPU: start the second one when the first answers, since each measures what is free.",)


def _downloads(plan: ServingPlan) -> str:
    lines = [_comment("Once, with a network; the servers themselves never ask the hub")]
    lines += [shlex.join(command) for command in plan.downloads]
    if plan.unpinned:
        lines.append(
            _comment(
                f"Not pinned: {', '.join(plan.unpinned)}. Today's weights are taken, and the report of a run cannot "
                "say which. Set 'revision' to the commit that the download names."
            )
        )
    return "\n".join(lines)


def _shared(shared: Shared) -> str:
    unfit = f"; this does not fit: {shared.unfit}" if shared.unfit else ""
    return f"{shared.role}: {shared.settings} is {shared.model} at {shared.base_url}, the {shared.by} server{unfit}"


def _not_ours(remote: Remote) -> str:
    if remote.role == "judge":
        return _comment(
            f"judge: {remote.model} at {remote.base_url or 'no address yet'} is not started here, since only "
            f"`medvrag judge` asks it. Start it by hand ({remote.server}) when its GPUs are free of the other servers."
        )
    if remote.role in ("helper", "generator") and remote.server == "vllm":
        return _comment(
            f"{remote.role}: {remote.model or 'no model yet'} at {remote.base_url or 'no address yet'} is not started "
            f"here, since no GPUs are set apart for it. Start it by hand where there is room, or give "
            f"{remote.settings} the address and model of the filter or the reader, which can serve it too."
        )
    return _comment(f"{remote.role}: {remote.settings} is served by {remote.server}, which is not started here")


def _hosted(remotes: tuple[Remote, ...]) -> str:
    lines = [
        "No server is started: hosted models.",
        "base_url  address of the service, as a rule up to and with /v1",
        "model     its name there",
        "server    hosted: only fields that every OpenAI-compatible service takes are sent",
        "key_env   name of the environment variable with the key, never the key itself",
    ]
    for remote in remotes:
        for name in ("base_url", "model"):
            lines.append(f"{remote.settings}.{name}: {getattr(remote, name) or 'not set yet'}")
    keys = dict.fromkeys(remote.key_env for remote in remotes)
    reads = [f"read -rs {key} && export {key}" for key in keys]
    return "\n".join([_comment(*lines, "Read a key without showing it or leaving it in the history:"), *reads])


def _comment(*lines: str) -> str:
    wrapped = [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  ")]
    return "\n".join(f"# {part}" for part in wrapped)
