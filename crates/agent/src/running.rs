//! The effects in flight: a small set of named futures, waited on together.

use std::future::{Future, poll_fn};
use std::task::Poll;

use hames_protocol::BoxFuture;

use crate::next::EffectId;

/// Effects in flight. Removing one drops its future, which by the contract of the ports ends what it started.
#[derive(Default)]
pub(crate) struct Running<T> {
    effects: Vec<(EffectId, BoxFuture<'static, T>)>,
}

impl<T> Running<T> {
    pub(crate) fn new() -> Self {
        Self { effects: Vec::new() }
    }

    pub(crate) fn contains(&self, id: &EffectId) -> bool {
        self.effects.iter().any(|(known, _)| known == id)
    }

    pub(crate) fn start(&mut self, id: EffectId, effect: BoxFuture<'static, T>) {
        self.effects.push((id, effect));
    }

    /// Drops an effect; says whether it was in flight.
    pub(crate) fn stop(&mut self, id: &EffectId) -> bool {
        let before = self.effects.len();
        self.effects.retain(|(known, _)| known != id);
        self.effects.len() < before
    }

    /// Waits for the next effect to end; for ever when there is none.
    pub(crate) fn ended(&mut self) -> impl Future<Output = (EffectId, T)> {
        poll_fn(|context| {
            for index in 0..self.effects.len() {
                if let Poll::Ready(value) = self.effects[index].1.as_mut().poll(context) {
                    let (id, _) = self.effects.swap_remove(index);
                    return Poll::Ready((id, value));
                }
            }
            Poll::Pending
        })
    }
}
