"""Peers of stage 1 that keep pages in files of their own: Qdrant Edge, LanceDB, fast-plaid, XTR-WARP."""

from __future__ import annotations

import importlib
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stage1_engines import Engine, Floats, Halves, Offsets, emptied, folder_bytes, page_arrays

_AT_ONCE = 500


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


STORES: tuple[type[Engine], ...] = (QdrantEdge, LanceDb)
