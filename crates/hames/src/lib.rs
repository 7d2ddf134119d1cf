//! The library face: a builder that wires the ports
