//! Images (rule V7): kind, encoding, size, and number.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use imagesize::ImageType;
use serde_json::Value;

use super::fields::Fields;
use super::{Checked, refuse};

/// Counted on the base64 text, as the API does, <https://docs.claude.com/en/docs/build-with-claude/vision>.
const MOST_BYTES: usize = 5 * 1024 * 1024;
/// In one request.
const MOST_IMAGES: usize = 100;
/// The longest side, in pixels.
const LONGEST_SIDE: usize = 8000;
/// The longest side in a request of more than [`MANY_IMAGES`], in pixels.
const LONGEST_SIDE_OF_MANY: usize = 2000;
const MANY_IMAGES: usize = 20;

pub(super) fn check(messages: &[Value]) -> Checked {
    let mut images = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        collect(&message["content"], &format!("messages.{index}.content"), &mut images);
    }
    if images.len() > MOST_IMAGES {
        return refuse(format!("Too much media: 0 document pages + {} images > {MOST_IMAGES}", images.len()));
    }
    let many = images.len() > MANY_IMAGES;
    images.iter().try_for_each(|(path, image)| check_image(image, path, many))
}

fn collect<'a>(content: &'a Value, path: &str, images: &mut Vec<(String, &'a Value)>) {
    for (index, block) in content.as_array().into_iter().flatten().enumerate() {
        match block["type"].as_str() {
            Some("image") => images.push((format!("{path}.{index}.image"), block)),
            Some("tool_result") => {
                collect(&block["content"], &format!("{path}.{index}.tool_result.content"), images);
            }
            _ => {}
        }
    }
}

fn check_image(image: &Value, path: &str, many: bool) -> Checked {
    let image = Fields::of(image, path)?;
    image.only(&["type", "source", "cache_control"])?;
    let path = image.at("source");
    let source = Fields::of(image.required("source")?, &path)?;
    if source.tag(&["base64", "file", "url"])? != "base64" {
        return Ok(());
    }
    let path = format!("{path}.base64");
    let source = Fields::of(image.required("source")?, &path)?;
    source.only(&["type", "media_type", "data"])?;
    let expected = match source.required_text("media_type")? {
        "image/jpeg" => ImageType::Jpeg,
        "image/png" => ImageType::Png,
        "image/gif" => ImageType::Gif,
        "image/webp" => ImageType::Webp,
        _ => {
            let names = "'image/jpeg', 'image/png', 'image/gif' or 'image/webp'";
            return refuse(format!("{path}.media_type: Input should be {names}"));
        }
    };
    let data = source.required_text("data")?;
    if data.len() > MOST_BYTES {
        return refuse(format!("{path}: image exceeds 5 MB maximum: {} bytes > {MOST_BYTES} bytes", data.len()));
    }
    if data.is_empty() {
        return refuse(format!("{path}: image cannot be empty"));
    }
    let Ok(bytes) = STANDARD.decode(data) else {
        return refuse(format!("{path}.data: invalid base64 data"));
    };
    match imagesize::image_type(&bytes) {
        Ok(found) if found == expected => {}
        Ok(_) => {
            let media_type = source.required_text("media_type")?;
            return refuse(format!("{path}.data: Image does not match the provided media type {media_type}"));
        }
        Err(_) => return refuse("Could not process image"),
    }
    let Ok(size) = imagesize::blob_size(&bytes) else {
        return refuse("Could not process image");
    };
    let longest = size.width.max(size.height);
    if longest > LONGEST_SIDE {
        return refuse(format!(
            "{path}.data: At least one of the image dimensions exceed max allowed size: {LONGEST_SIDE} pixels"
        ));
    }
    match many && longest > LONGEST_SIDE_OF_MANY {
        true => refuse(format!(
            "{path}.data: At least one of the image dimensions exceed max allowed size for many-image requests: \
             {LONGEST_SIDE_OF_MANY} pixels"
        )),
        false => Ok(()),
    }
}

/// Checks an image that stands in a data URL; of any other address nothing is known.
pub(super) fn check_data_url(url: &Value, path: &str) -> Checked {
    let Some(url) = url.as_str() else { return refuse(format!("Missing required parameter: '{path}'.")) };
    let Some((media_type, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) else {
        return match url.starts_with("https://") || url.starts_with("http://") {
            true => Ok(()),
            false => refuse(format!("Invalid '{path}'. Expected a valid URL.")),
        };
    };
    check_base64(media_type, data, path)
}

/// Checks an image's bytes against its type.
pub(super) fn check_base64(media_type: &str, data: &str, path: &str) -> Checked {
    let expected = match media_type {
        "image/jpeg" => ImageType::Jpeg,
        "image/png" => ImageType::Png,
        "image/gif" => ImageType::Gif,
        "image/webp" => ImageType::Webp,
        _ => return refuse(format!("You uploaded an unsupported image ({path}): {media_type}.")),
    };
    match STANDARD.decode(data).map(|bytes| imagesize::image_type(&bytes)) {
        Ok(Ok(found)) if found == expected => Ok(()),
        Ok(_) => refuse(format!("The image data you provided does not represent a valid image ({path}).")),
        Err(_) => refuse(format!("Invalid base64 image data ({path}).")),
    }
}
