//! The journal: an append-only, hash-chained log
