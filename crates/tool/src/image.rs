//! Images for the model: known by their bytes, within what providers take, as base64.
//!
//! A provider refuses the whole request for one image that it cannot take, and the image then stands in every request
//! that follows. So what would be refused is refused here, before it is part of a conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hames_protocol::Block;
use imagesize::ImageType;

use crate::text::{shown, thousands};

/// The largest image in base64, in bytes, <https://docs.claude.com/en/docs/build-with-claude/vision>.
const BASE64_LIMIT_BYTES: u64 = 5 * 1024 * 1024;

/// The longest side of an image, in pixels; the same source.
const SIDE_LIMIT: usize = 8_000;

/// Why an image cannot be shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    /// It is of no kind that models take.
    #[error("`{0}` is no PNG, JPEG, GIF or WebP image. Convert it to one of these first.")]
    Unknown(String),
    /// It ends before its end, or has no size.
    #[error("`{0}` begins like an image, but it is cut or damaged. Make or fetch it again.")]
    Damaged(String),
    /// It has too many bytes.
    #[error(
        "`{name}` has {} bytes, which are {} in base64; a model takes at most {}. Scale it down or crop it first.",
        thousands(*.bytes), thousands(base64_bytes(*.bytes)), thousands(BASE64_LIMIT_BYTES)
    )]
    TooLarge {
        /// The file as named.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// It has too many pixels.
    #[error(
        "`{name}` is {width} × {height} pixels; a model takes at most {} on a side. Scale it down or crop it first.",
        thousands(SIDE_LIMIT as u64)
    )]
    TooWide {
        /// The file as named.
        name: String,
        /// Its width in pixels.
        width: usize,
        /// Its height in pixels.
        height: usize,
    },
}

/// An image that a model takes.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    kind: Kind,
    width: usize,
    height: usize,
    bytes: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl Kind {
    fn of(bytes: &[u8]) -> Option<Self> {
        match imagesize::image_type(bytes) {
            Ok(ImageType::Png) => Some(Self::Png),
            Ok(ImageType::Jpeg) => Some(Self::Jpeg),
            Ok(ImageType::Gif) => Some(Self::Gif),
            Ok(ImageType::Webp) => Some(Self::Webp),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            // Behind the name of the last chunk stand the four bytes of its checksum.
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::Webp => "WebP",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Whether the bytes reach to the mark, or the length, that ends an image of this kind.
    fn is_whole(self, bytes: &[u8]) -> bool {
        match self {
            Self::Png => memchr::memmem::rfind(bytes, b"IEND").is_some_and(|at| at + 8 <= bytes.len()),
            Self::Jpeg => memchr::memmem::rfind(bytes, b"\xFF\xD9").is_some(),
            Self::Gif => bytes.iter().rev().find(|byte| **byte != 0) == Some(&b';'),
            // RIFF: four letters, then the length of what follows the length.
            Self::Webp => bytes
                .get(4..8)
                .and_then(|length| Some(u32::from_le_bytes(length.try_into().ok()?)))
                .is_some_and(|length| u64::from(length) + 8 <= bytes.len() as u64),
        }
    }
}

impl<'a> Image<'a> {
    /// Takes the bytes of a file as an image; the name is for sentences.
    ///
    /// # Errors
    /// When it is none, or none that a model takes.
    pub fn of(name: &str, bytes: &'a [u8]) -> Result<Self, ImageProblem> {
        let name = shown(name);
        let Some(kind) = Kind::of(bytes) else { return Err(ImageProblem::Unknown(name)) };
        let length = bytes.len() as u64;
        if base64_bytes(length) > BASE64_LIMIT_BYTES {
            return Err(ImageProblem::TooLarge { name, bytes: length });
        }
        let size = imagesize::blob_size(bytes).ok().filter(|size| size.width > 0 && size.height > 0);
        let Some(size) = size.filter(|_| kind.is_whole(bytes)) else { return Err(ImageProblem::Damaged(name)) };
        if size.width.max(size.height) > SIDE_LIMIT {
            return Err(ImageProblem::TooWide { name, width: size.width, height: size.height });
        }
        Ok(Self { kind, width: size.width, height: size.height, bytes })
    }

    /// What it is, for a sentence: `PNG image, 800 × 600 pixels`.
    pub fn described(&self) -> String {
        format!("{} image, {} × {} pixels", self.kind.name(), self.width, self.height)
    }

    /// The block that shows it to a model.
    pub fn block(&self) -> Block {
        Block::Image { media_type: self.kind.media_type().to_owned(), data: STANDARD.encode(self.bytes) }
    }
}

/// How long so many bytes are in base64.
fn base64_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, filling: usize) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(b"\x08\x02\0\0\0\0\0\0\0");
        bytes.extend(std::iter::repeat_n(0, filling));
        bytes.extend(b"\0\0\0\0IEND\xaeB`\x82");
        bytes
    }

    #[test]
    fn an_image_is_known_by_its_bytes() {
        let jpeg = b"\xFF\xD8\xFF\xC0\0\x11\x08\0\x02\0\x03\x03\x01\x22\0\x02\x11\x01\x03\x11\x01\xFF\xD9";
        let webp = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x02\0\0\x01\0\0";
        let table: [(&[u8], &str, &str); 4] = [
            (&png(3, 2, 0), "PNG image, 3 × 2 pixels", "image/png"),
            (jpeg, "JPEG image, 3 × 2 pixels", "image/jpeg"),
            (b"GIF89a\x03\0\x02\0\0\0\0;", "GIF image, 3 × 2 pixels", "image/gif"),
            (webp, "WebP image, 3 × 2 pixels", "image/webp"),
        ];
        for (bytes, described, kind) in table {
            let image = Image::of("x", bytes).unwrap();
            assert_eq!(image.described(), described);
            let Block::Image { media_type, data } = image.block() else { panic!("an image block") };
            assert_eq!((media_type.as_str(), STANDARD.decode(data).unwrap().as_slice()), (kind, bytes));
            let cut = &bytes[..bytes.len() - 2];
            assert_eq!(Image::of("x", cut).unwrap_err(), ImageProblem::Damaged("x".to_owned()), "{kind}");
        }
        for other in [&b"text"[..], b"BM\x3a\0\0\0", b"%PDF-1.7", b""] {
            assert_eq!(Image::of("x", other).unwrap_err(), ImageProblem::Unknown("x".to_owned()));
        }
    }

    #[test]
    fn what_a_provider_would_refuse_is_refused_with_its_size() {
        let frame = png(1, 1, 0).len();
        let most = 3_932_160;
        assert!(Image::of("x", &png(8_000, 8_000, most - frame)).is_ok());
        let text = Image::of("x", &png(1, 1, most - frame + 1)).unwrap_err().to_string();
        assert!(
            text.contains("3,932,161 bytes, which are 5,242,884 in base64; a model takes at most 5,242,880"),
            "{text}"
        );
        let text = Image::of("x", &png(8_001, 10, 0)).unwrap_err().to_string();
        assert!(text.contains("8001 × 10 pixels; a model takes at most 8,000 on a side"), "{text}");
        assert!(matches!(Image::of("x", &png(0, 1, 0)), Err(ImageProblem::Damaged(_))));
    }
}
