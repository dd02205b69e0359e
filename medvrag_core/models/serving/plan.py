"""Which model servers a profile needs, and on which GPUs: the plan behind ``medvrag serve``.

Every server listens on loopback only, since vLLM's key guards only some of its paths. Nothing of this was run on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from medvrag_core.errors import InputError, SettingsError
from medvrag_core.models.image_tokens import image_tokens
from medvrag_core.models.serving.memory import ARCHITECTURES, GIB, Room, parameters, room, weight_bytes
from medvrag_core.models.serving.options import (
    ENVIRONMENT,
    VLLM,
    Option,
    Phase,
    Place,
    Role,
    address,
    commit,
    places,
    server_options,
)
from medvrag_core.records import Record
from medvrag_core.settings import ModelSettings, Profile

PHASES: tuple[Phase, ...] = ("summaries", "questions")
_LETTER_AT_300_DPI = (2_550, 3_300)


class Server(Record):
    """One vLLM server.

    Attributes
    ----------
    settings : field of the profile that it is made of
    argv : the command; the key is neither in it nor in ``environment``
    key_env : variable that holds the key, handed on as ``VLLM_API_KEY``
    arithmetic : sentences on memory
    """

    role: Role
    settings: str
    phase: Phase
    model: str
    gpus: tuple[int, ...]
    base_url: str
    host: str
    port: int
    key_env: str
    environment: dict[str, str]
    argv: tuple[str, ...]
    options: tuple[Option, ...]
    room: Room | None
    arithmetic: tuple[str, ...]


class Remote(Record):
    """A model that is served elsewhere, or by other means."""

    role: Role
    settings: str
    model: str
    base_url: str
    server: str
    key_env: str


class Shared(Record):
    """A model for tasks beside the reader's that is asked at the server of another role, ``by``.

    ``unfit`` says what it wants of that server which it is not, and how to mend it; empty where all is well.
    """

    role: Role
    settings: str
    model: str
    base_url: str
    by: Role
    unfit: str


class ServingPlan(Record):
    """All that a profile needs beside the ``medvrag`` process itself.

    ``downloads`` are commands, ``unpinned`` models without a commit, ``in_process`` sentences on what ``medvrag`` runs
    by itself.
    """

    profile: str
    note: str
    servers: tuple[Server, ...]
    shared: tuple[Shared, ...]
    remote: tuple[Remote, ...]
    downloads: tuple[tuple[str, ...], ...]
    unpinned: tuple[str, ...]
    in_process: tuple[str, ...]

    def of_phase(self, phase: str) -> tuple[Server, ...]:
        """Servers that run together; raises InputError where the phase has none."""
        found = tuple(server for server in self.servers if server.phase == phase)
        if not found:
            have = ", ".join(dict.fromkeys(server.phase for server in self.servers))
            raise InputError(
                f"profile '{self.profile}' has no server of its own in the phase '{phase}'",
                way_out=f"choose {have}" if have else "it needs none",
            )
        return found


def serving_plan(profile: Profile) -> ServingPlan:
    """The servers of a profile; one without language models of its own gives a plan without servers.

    Raises
    ------
    SettingsError
        A server would not be on loopback, does not fit its GPUs, cannot hold one call, shares a port, or ``revision``
        is no commit; names the field and shows the sum.
    """
    used = places(profile)
    ours = tuple(place for place in used if place.model.server == "vllm")
    servers = tuple(_server(profile, place) for place in ours)
    _require_room_together(profile, ours)
    weights = {place.model.model: commit(place) for place in ours}
    shared, apart = _beside_the_reader(profile, ours)
    if profile.encoder.name == "colqwen2.5":
        weights[profile.encoder.model] = profile.encoder.revision
    return ServingPlan(
        profile=profile.name,
        note=profile.note,
        servers=servers,
        shared=shared,
        remote=(
            *(
                Remote(role=place.role, settings=place.settings, **_where(place.model))
                for place in used
                if place not in ours
            ),
            *apart,
            *_judge(profile),
        ),
        downloads=tuple(
            ("hf", "download", name, *(("--revision", pin) if pin else ())) for name, pin in weights.items()
        ),
        unpinned=tuple(name for name, pin in weights.items() if not pin),
        in_process=_in_process(profile, ours),
    )


def _beside_the_reader(profile: Profile, ours: tuple[Place, ...]) -> tuple[tuple[Shared, ...], tuple[Remote, ...]]:
    """Helper and generator, for which no GPUs are set apart: those at a server of the plan, and the others."""
    roles: tuple[tuple[Role, str, ModelSettings, bool], ...] = (
        ("helper", "helper_model", profile.helper_model, profile.helper.name == "llm"),
        ("generator", "generator_model", profile.generator_model, profile.helper.generator == "llm"),
    )
    shared, apart = list[Shared](), list[Remote]()
    for role, settings, model, used in roles:
        host = next((place for place in ours if model.base_url and place.model.base_url == model.base_url), None)
        if used and host is not None:
            told = {"model": model.model, "base_url": model.base_url, "unfit": _difference(settings, model, host)}
            shared.append(Shared(role=role, settings=settings, by=host.role, **told))
        elif used:
            apart.append(Remote(role=role, settings=settings, **_where(model)))
    return tuple(shared), tuple(apart)


def _difference(settings: str, model: ModelSettings, host: Place) -> str:
    """What a model wants of a server that the server is not; nothing is refused, since most systems never ask it."""
    if host.phase != "questions":
        return f"that server is stopped before questions are answered; give '{settings}' the address of another"
    differs = [
        f"set {settings}.{field}={there}, which is what runs there, or give '{settings}' a server of its own"
        for field in ("model", "revision")
        if (there := getattr(host.model, field)) != (here := getattr(model, field)) and here
    ]
    if model.context_tokens > host.model.context_tokens:
        differs.append(f"set {settings}.context_tokens={host.model.context_tokens}, it counts on more")
    return "; ".join(differs)


def _judge(profile: Profile) -> Iterator[Remote]:
    """The judge labels pages after a run, and no GPUs are set apart for it."""
    if profile.judge_model.model:
        yield Remote(role="judge", settings="judge_model", **_where(profile.judge_model))


def _where(model: ModelSettings) -> dict[str, str]:
    return {"model": model.model, "base_url": model.base_url, "server": model.server, "key_env": model.key_env}


def _server(profile: Profile, place: Place) -> Server:
    host, port = address(place)
    options = server_options(profile, place)
    _require_images(profile, place)
    space = _room(profile, place)
    return Server(
        role=place.role,
        settings=place.settings,
        phase=place.phase,
        model=place.model.model,
        gpus=place.gpus,
        base_url=place.model.base_url,
        host=host,
        port=port,
        key_env=place.model.key_env,
        environment={"CUDA_VISIBLE_DEVICES": ",".join(map(str, place.gpus)), **ENVIRONMENT},
        argv=("vllm", "serve", place.model.model, *(part for o in options for part in (o.flag, o.value) if part)),
        options=options,
        room=space,
        arithmetic=_arithmetic(profile, place, space),
    )


def _require_images(profile: Profile, place: Place) -> None:
    shown = _pages_shown(profile, place)
    if place.model.max_images < shown:
        raise SettingsError(
            f"'{place.settings}.max_images': {place.model.max_images}, but {shown} pages are shown",
            way_out=f"set {place.settings}.max_images={shown}",
        )
    if shown and not place.images:
        raise SettingsError(f"'{place.settings}.model': {place.model.model} cannot see pages")


def _pages_shown(profile: Profile, place: Place) -> int:
    return {"filter": 0, "summary": 1, "reader": profile.loop.pages_shown}[place.role]


def _room(profile: Profile, place: Place) -> Room | None:
    sizes, model, serve = place.sizes, place.model, profile.serve
    if sizes is None:
        return None
    if sizes.heads % place.split:
        raise SettingsError(
            f"'{place.settings}': {model.model} has {sizes.heads} heads, {place.split} GPUs cannot share them evenly"
        )
    if model.context_tokens > sizes.max_tokens:
        raise SettingsError(
            f"'{place.settings}.context_tokens': {model.context_tokens:,}, but {model.model} takes {sizes.max_tokens:,}"
        )
    space = room(sizes, place.split, gpu_gib=serve.gpu_gib, share=place.share, workspace_gib=serve.workspace_gib)
    if space.tokens < model.context_tokens:
        raise SettingsError(
            f"'{place.settings}': {model.model} has {space.share_gib:.1f} GiB a GPU; {space.weights_gib:.1f} GiB of "
            f"weights and {space.workspace_gib:.1f} GiB beside leave room for {space.tokens:,} tokens, less than one "
            f"call of {model.context_tokens:,}",
            way_out="give it more GPUs or a larger share under 'serve', a smaller model, or fewer context_tokens",
        )
    return space


def _require_room_together(profile: Profile, ours: tuple[Place, ...]) -> None:
    for phase in PHASES:
        together = [place for place in ours if place.phase == phase]
        ports = [address(place)[1] for place in together]
        if len(set(ports)) != len(ports):
            raise SettingsError(f"two servers of the phase '{phase}' share a port", way_out="give each its own")
        for gpu in sorted({gpu for place in together for gpu in place.gpus}):
            wanted = profile.serve.gpu_gib - _left_gib(profile, together, gpu)
            wanted += _encoder_gib(profile, gpu) if phase == "questions" else 0.0
            if wanted > profile.serve.gpu_gib:
                raise SettingsError(
                    f"'serve': servers and page encoder want {wanted:.1f} GiB of GPU {gpu}, which has "
                    f"{profile.serve.gpu_gib:.1f} GiB",
                    way_out="make the shares smaller",
                )


def _left_gib(profile: Profile, together: list[Place], gpu: int) -> float:
    """What the servers of one phase leave of a GPU; negative where they want too much."""
    return (1 - sum(place.share for place in together if gpu in place.gpus)) * profile.serve.gpu_gib


def _encoder_gpu(profile: Profile) -> int | None:
    """GPU of the page encoder, which runs inside ``medvrag``; None where it runs on the CPU."""
    found = re.fullmatch(r"cuda(?::(\d+))?", profile.encoder.device)
    return int(found.group(1) or 0) if found and profile.encoder.name == "colqwen2.5" else None


def _encoder_gib(profile: Profile, gpu: int) -> float:
    sizes = ARCHITECTURES.get(profile.encoder.model)
    if sizes is None or gpu != _encoder_gpu(profile):
        return 0.0
    return weight_bytes(sizes, 1) / GIB + profile.serve.workspace_gib


def _in_process(profile: Profile, ours: tuple[Place, ...]) -> tuple[str, ...]:
    encoder = profile.encoder
    if encoder.name != "colqwen2.5":
        return (f"pages and queries are encoded inside medvrag, by the encoder '{encoder.name}' on '{encoder.device}'",)
    lines = [
        f"{encoder.model} encodes pages and queries inside medvrag, through colpali-engine; there is no server:",
        f"vLLM {VLLM} serves ColPali, ColQwen3 and ColQwen3.5, not ColQwen2.5, whose checkpoint is an adapter",
    ]
    gpu = _encoder_gpu(profile)
    if gpu is None:
        return (*lines, f"it runs on '{encoder.device}'")
    left = _left_gib(profile, [place for place in ours if place.phase == "questions"], gpu)
    return (
        *lines,
        f"it runs on GPU {gpu}: {_encoder_gib(profile, gpu):.1f} GiB with {profile.serve.workspace_gib:.1f} GiB beside "
        f"the weights (an estimate), where filter and reader leave {left:.1f} GiB",
        "pages are encoded once, before the index is built; with questions come only queries",
        "the adapter names its base model in adapter_config.json; download that one too",
    )


def _arithmetic(profile: Profile, place: Place, space: Room | None) -> tuple[str, ...]:
    sizes, model = place.sizes, place.model
    if sizes is None or space is None:
        return (f"the sizes of {model.model} are not known here, so its memory was not computed",)
    lines = [
        f"weights: {parameters(sizes) / 1e9:.2f} billion numbers of 2 bytes, {space.weights_gib:.1f} GiB a GPU",
        f"cache: {profile.serve.gpu_gib:.0f} x {place.share:.2f} - {space.weights_gib:.1f} - "
        f"{space.workspace_gib:.1f} beside (an estimate) = {space.cache_gib:.1f} GiB a GPU; "
        f"{space.kib_a_token:.0f} KiB a token, so {space.tokens:,} tokens",
        f"calls: {space.tokens // model.context_tokens} of {model.context_tokens:,} tokens at one time",
    ]
    if place.role == "filter":
        shards = -(-profile.index.candidates // profile.filter.shard_size)
        each = (model.context_tokens - model.max_tokens) // profile.filter.shard_size
        lines.append(
            f"shards: {shards} map calls and 1 reduce call a question; {profile.filter.shard_size} summaries of {each} "
            "tokens fill a call, longer ones need more calls"
        )
    else:
        pages, page = _pages_shown(profile, place), page_tokens(model)
        lines.append(f"pages: {pages} x {page:,} tokens (US Letter at max_pixels) = {pages * page:,} of a call")
    return tuple(lines)


def page_tokens(model: ModelSettings) -> int:
    """Tokens of a US Letter page that was rendered at 300 dpi, at the size at which it is sent."""
    return image_tokens(*_LETTER_AT_300_DPI, max_pixels=model.max_pixels, min_pixels=model.min_pixels)
