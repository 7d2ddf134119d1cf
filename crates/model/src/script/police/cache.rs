//! Cache markers: how many, of what kind, and in what order.

use serde_json::Value;

use super::fields::Fields;
use super::{Checked, refuse};

/// <https://docs.claude.com/en/docs/build-with-claude/prompt-caching>.
const MOST_MARKERS: usize = 4;

pub(super) fn check(request: &Value) -> Checked {
    let mut markers = Vec::new();
    // The order in which the API goes through a request.
    for name in ["tools", "system", "messages"] {
        if let Some(value) = request.get(name) {
            collect(value, name, &mut markers);
        }
    }
    for (path, marker) in &markers {
        let path = format!("{path}.cache_control");
        let marker = Fields::of(marker, &path)?;
        marker.tag(&["ephemeral"])?;
        marker.only(&["type", "ttl"])?;
        if marker.get("ttl").is_some_and(|ttl| ttl != "5m" && ttl != "1h") {
            return refuse(format!("{path}.ephemeral.ttl: Input should be '5m' or '1h'"));
        }
    }
    if markers.len() > MOST_MARKERS {
        let found = markers.len();
        return refuse(format!("A maximum of 4 blocks with cache_control may be provided. Found {found}."));
    }
    let long = |marker: &Value| marker.get("ttl").is_some_and(|ttl| ttl == "1h");
    let first_short = markers.iter().position(|(_, marker)| !long(marker)).unwrap_or(markers.len());
    match markers.iter().skip(first_short).find(|(_, marker)| long(marker)) {
        Some((path, _)) => refuse(format!(
            "{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control \
             block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )),
        None => Ok(()),
    }
}

/// Finds the markers of blocks and tools; a call's input and a schema may hold anything and are not looked into.
fn collect<'a>(value: &'a Value, path: &str, markers: &mut Vec<(String, &'a Value)>) {
    let Some(items) = value.as_array() else { return };
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}.{index}");
        if let Some(marker) = item.get("cache_control").filter(|marker| !marker.is_null()) {
            markers.push((path.clone(), marker));
        }
        if let Some(content) = item.get("content") {
            collect(content, &format!("{path}.content"), markers);
        }
    }
}
