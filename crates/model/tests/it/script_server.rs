//! The script server over real HTTP.
