//! Checks and evidence to a verdict
