"""A model of a profile, ready to be asked: behind one server or several, and behind the call store."""

from __future__ import annotations

from medvrag_core.models.base import ChatModel
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.store import CallStore
from medvrag_core.models.stored_chat import StoredChat
from medvrag_core.settings import CallSettings, ModelSettings


def stored_chat(settings: ModelSettings, calls: CallSettings, limits: CallLimits, store: CallStore) -> StoredChat:
    """A model whose calls are kept in ``store``; its servers are first looked for when a call has to be paid for."""

    def open_model() -> ChatModel:
        from medvrag_core.models.openai_client import OpenAIChat
        from medvrag_core.models.several_servers import SeveralServers

        return (SeveralServers if settings.more_urls else OpenAIChat)(settings, calls, limits)

    return StoredChat(settings, store, calls, open_model)
