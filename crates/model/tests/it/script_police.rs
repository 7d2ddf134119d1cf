//! The checker: for every rule a body that passes and the smallest change that breaks it.
