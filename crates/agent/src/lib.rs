//! Fold, next, and the driver
