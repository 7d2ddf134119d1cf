//! An observer for those who only want the result.

use hames_protocol::Event;
use hames_protocol::port::Observer;

/// Watches and says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&self, _: &Event) {}
}
