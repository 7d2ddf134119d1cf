//! Isolation of processes and the path jail
