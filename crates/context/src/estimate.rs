//! How many tokens a message comes to where nobody has counted them.
//!
//! A bound that holds only while a provider reports usage is none. The estimate is meant for bounds: it is rather high
//! than low for English and code, and rather low for other scripts.

use hames_protocol::{Block, Message};

/// Bytes of text for a token. Source: <https://platform.claude.com/docs/en/about-claude/glossary#tokens> (about 3.5
/// characters of English).
const BYTES_PER_TOKEN: usize = 4;

/// The most that an image comes to, in tokens. Source:
/// <https://platform.claude.com/docs/en/build-with-claude/vision#evaluate-image-size>.
const IMAGE_TOKENS: u64 = 1_600;

/// The tokens of text of that many bytes, rounded up.
pub fn text_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

/// The tokens of a message.
pub fn message_tokens(message: &Message) -> u64 {
    match message {
        Message::User(blocks) => blocks.iter().map(block_tokens).sum(),
        Message::Assistant { reply, .. } => {
            reply.parts.iter().map(|part| text_tokens(part.native.as_str().len())).sum()
        }
        Message::Results(results) => results.iter().flat_map(|result| &result.blocks).map(block_tokens).sum(),
    }
}

fn block_tokens(block: &Block) -> u64 {
    match block {
        Block::Text(text) => text_tokens(text.len()),
        Block::Image { .. } => IMAGE_TOKENS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_not_counted_by_its_bytes() {
        let image = Block::Image { media_type: "image/png".to_owned(), data: "A".repeat(1_000_000) };
        assert_eq!(message_tokens(&Message::User(vec![image, Block::text("12345")])), 1_602);
        assert_eq!(text_tokens(0), 0);
    }
}
