"""Search indexes that are derived from a collection, in this process or a server: FAISS, pgvector, Milvus."""
