//! Entries to a model request
