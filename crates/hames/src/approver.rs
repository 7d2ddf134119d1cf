//! An approver for those who run alone.

use hames_protocol::port::Approver;
use hames_protocol::{Answer, Ask, BoxFuture};

/// Nobody is there: a run that needs an answer is suspended, and goes on when it is given one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Ask) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(std::future::ready(None))
    }
}
