"""Peers of stage 1 that keep pages in files of their own: Qdrant Edge, LanceDB, fast-plaid, XTR-WARP."""

from __future__ import annotations

import importlib
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stage1_engines import Engine, Floats, Halves, Offsets, emptied, folder_bytes, page_arrays

_AT_ONCE, _SAMPLED = 500, 1_000


class QdrantEdge(Engine):
    """Qdrant in the process: multivectors with MaxSim, exact search; float16 in memory."""

    name, package, module, kept, memory_factor = "qdrant-edge", "qdrant-edge-py", "qdrant_edge", True, 3.0
    _shard: Any = None

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        qdrant = self.lib
        shard = qdrant.EdgeShard.create(str(emptied(self.folder / "shard")), self._config(rows.shape[1]))
        pages = enumerate(page_arrays(rows, offsets))
        while some := list(islice(pages, _AT_ONCE)):
            points = [qdrant.Point(number, page.tolist(), None) for number, page in some]
            shard.update(qdrant.UpdateOperation.upsert_points(points))
        shard.flush()
        shard.close()
        self.open(rows, offsets)

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._shard = self.lib.EdgeShard.load(str(self.folder / "shard"), self._config(rows.shape[1]))

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        qdrant = self.lib
        request = qdrant.QueryRequest(
            limit=k, query=qdrant.Query.Nearest(query.tolist()), params=qdrant.SearchParams(exact=True)
        )
        return np.array([point.id for point in self._shard.query(request)], dtype=np.int64)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return folder_bytes(self.folder / "shard")

    def _config(self, dim: int) -> Any:
        qdrant = self.lib
        vectors = qdrant.EdgeVectorParams(
            size=dim,
            distance=qdrant.Distance.Dot,
            multivector_config=qdrant.MultiVectorConfig(qdrant.MultiVectorComparator.MaxSim),
            datatype=qdrant.VectorStorageDatatype.Float16,
            hnsw_config=qdrant.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=1),
        )
        return qdrant.EdgeConfig(vectors=vectors, max_search_threads=self.threads, wal_enabled=False)


class LanceDb(Engine):
    """LanceDB: a column of multivectors, searched without an index; cosine, float32 (of unit rows: the same)."""

    name, package, module, kept, memory_factor = "lancedb", "lancedb", "lancedb", True, 3.0

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        arrow: Any = importlib.import_module("pyarrow")
        column = arrow.list_(arrow.list_(arrow.float32(), rows.shape[1]))
        schema = arrow.schema([arrow.field("number", arrow.int64()), arrow.field("vector", column)])
        table = self._connect(fresh=True).create_table("pages", schema=schema)
        pages = enumerate(page_arrays(rows, offsets))
        while some := list(islice(pages, 4 * _AT_ONCE)):
            values = np.concatenate([page for _, page in some]).ravel()
            starts = np.concatenate([[0], np.cumsum([len(page) for _, page in some])]).astype(np.int32)
            flat = arrow.FixedSizeListArray.from_arrays(arrow.array(values), rows.shape[1])
            lists = arrow.ListArray.from_arrays(arrow.array(starts), flat)
            numbers = arrow.array([number for number, _ in some], arrow.int64())
            table.add(arrow.table([numbers, lists.cast(column)], schema=schema))
        self._table: Any = table

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._table = self._connect().open_table("pages")

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        found = self._table.search(query).metric("cosine").limit(k).select(["number", "_distance"]).to_arrow()
        return np.asarray(found["number"].to_numpy(), dtype=np.int64)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return folder_bytes(self.folder / "lance")

    def _connect(self, *, fresh: bool = False) -> Any:
        home = emptied(self.folder / "lance") if fresh else self.folder / "lance"
        return self.lib.connect(str(home))


class FastPlaid(Engine):
    """fast-plaid: PLAID in Rust on torch, 4-bit residuals; k-means from 1,000 pages, else as it comes.

    By its own choice of a sample the build of some 10,000 pages takes many minutes on a CPU.
    """

    name, package, module, light, kept = "fast-plaid", "fast-plaid", "fast_plaid.search", False, True
    memory_factor = 6.0

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        pages = torch_pages(rows, offsets)
        emptied(self.folder / "plaid")
        self.open(rows, offsets)
        self._index.create(pages, n_samples_kmeans=min(len(pages), _SAMPLED))

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._torch = one_torch(self.threads)
        self._index = self.lib.FastPlaid(index=str(self.folder / "plaid"), device="cpu")

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        asked = self._torch.from_numpy(query)[None]
        [found] = self._index.search(asked, top_k=k, n_full_scores=max(4_096, 2 * k), show_progress=False)
        return np.array([page for page, _ in found], dtype=np.int64)

    @property
    def bytes(self) -> int:
        """See :class:`Engine`."""
        return folder_bytes(self.folder / "plaid")

    def must_read(self, m: int) -> int:
        """See :class:`Engine`; what its probes touch is not known from outside."""
        return 0


class XtrWarp(FastPlaid):
    """xtr-warp-rs: WARP in Rust on torch, 4 bits. Its imputed scores are meant for vectors trained as XTR's are."""

    name, package, module = "xtr-warp", "xtr-warp-rs", "xtr_warp"

    def build(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        pages = torch_pages(rows, offsets)
        index = self.lib.XTRWarp(str(emptied(self.folder / "plaid")))
        index.create(pages, device="cpu", n_samples_kmeans=min(len(pages), _SAMPLED), show_progress=False)
        self.open(rows, offsets)

    def open(self, rows: Halves, offsets: Offsets) -> None:
        """See :class:`Engine`."""
        self._torch = one_torch(self.threads)
        self._index = self.lib.XTRWarp(str(self.folder / "plaid")).load(device="cpu")

    def search(self, query: Floats, k: int) -> NDArray[np.int64]:
        """See :class:`Engine`."""
        asked = self._torch.from_numpy(query)[None]
        [found] = self._index.search(asked, top_k=k, num_threads=self.threads, show_progress=False)
        return np.array([page for page, _ in found], dtype=np.int64)


def one_torch(threads: int) -> Any:
    """torch, using so many threads."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    return torch


def torch_pages(rows: Halves, offsets: Offsets) -> list[Any]:
    """Pages as tensors."""
    torch: Any = importlib.import_module("torch")
    return [torch.from_numpy(page) for page in page_arrays(rows, offsets)]


STORES: tuple[type[Engine], ...] = (QdrantEdge, LanceDb, FastPlaid, XtrWarp)
