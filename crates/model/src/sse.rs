//! Decodes server-sent events from bytes, wherever the network cut them.
//!
//! Source: <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>. Lines are
//! gathered as bytes and decoded whole, so that a chunk edge inside a character or between CR and LF changes nothing.
//! A client of `EventSource` reconnects by itself, which would be wrong for a POST; hence this small decoder.

use std::mem;

/// The largest event that is taken, in bytes: far above any real one, so that a broken server cannot fill the memory.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event with its name (`message` when the stream gave none) and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// An event grew beyond all measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {MAX_EVENT_BYTES} bytes")]
pub(crate) struct EventTooLarge;

/// Turns chunks of bytes into events. What follows the last blank line when the stream ends is no event.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    last: LastByte,
    first: FirstLine,
    name: String,
    data: String,
}

/// Whether a line feed that comes next belongs to a line end that was already seen.
#[derive(Debug, Default, PartialEq)]
enum LastByte {
    CarriageReturn,
    #[default]
    Other,
}

/// Whether a byte order mark may still come.
#[derive(Debug, Default, PartialEq)]
enum FirstLine {
    #[default]
    Ahead,
    Seen,
}

impl Decoder {
    /// Takes a chunk and adds the events that it completes to `events`.
    ///
    /// # Errors
    /// When an event is too large.
    pub(crate) fn feed(&mut self, chunk: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLarge> {
        let mut rest = chunk;
        while let Some(&first) = rest.first() {
            let after_cr = mem::take(&mut self.last) == LastByte::CarriageReturn;
            if after_cr && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.extend_from_slice(rest);
                break;
            };
            self.line.extend_from_slice(&rest[..end]);
            if rest[end] == b'\r' {
                self.last = LastByte::CarriageReturn;
            }
            rest = &rest[end + 1..];
            events.extend(self.end_line());
        }
        match self.line.len() + self.data.len() > MAX_EVENT_BYTES {
            true => Err(EventTooLarge),
            false => Ok(()),
        }
    }

    /// Reads the gathered line; a blank one completes an event.
    fn end_line(&mut self) -> Option<SseEvent> {
        let line = mem::take(&mut self.line);
        let mut line = line.as_slice();
        if mem::replace(&mut self.first, FirstLine::Seen) == FirstLine::Ahead {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &b""[..]), |at| (&line[..at], &line[at + 1..]));
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"event" => value.as_ref().clone_into(&mut self.name),
            b"data" => {
                self.data.push_str(&value);
                self.data.push('\n');
            }
            // Comments (an empty field name), `id`, `retry` and fields of later versions mean nothing here.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let (name, mut data) = (mem::take(&mut self.name), mem::take(&mut self.data));
        // The last line feed only ended the last line; without any line there is no event.
        data.pop()?;
        let name = if name.is_empty() { "message".to_owned() } else { name };
        Some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use eventsource_stream::Eventsource;
    use futures_util::{StreamExt, stream};
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<SseEvent> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.feed(chunk.as_ref(), &mut events).unwrap();
        }
        events
    }

    fn pairs(text: &str) -> Vec<(String, String)> {
        decode([text]).into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn oracle(text: &str) -> Vec<(String, String)> {
        let stream = stream::iter([Ok::<_, std::convert::Infallible>(text.as_bytes().to_vec())]).eventsource();
        let events = futures_util::future::FutureExt::now_or_never(stream.collect::<Vec<_>>()).unwrap();
        events.into_iter().map(|event| event.unwrap()).map(|event| (event.event, event.data)).collect()
    }

    #[test]
    fn every_kind_of_line_is_read_as_the_standard_says() {
        let text = "\u{feff}: comment\nevent: a\ndata:no blank\ndata:  two blanks\nid: 7\nretry: 10\nfoo: bar\n\n\
                    data\n\nevent: no data\n\ndata: x:y\n\ndata: cut off";
        let expected = [("a", "no blank\n two blanks"), ("message", ""), ("message", "x:y")];
        assert_eq!(pairs(text), expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
    }

    #[test]
    fn lf_cr_and_crlf_end_lines_at_every_cut() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "event: a\ndata: 北京\ndata: 😀\n\n: hm\ndata: b\n\n".replace('\n', end);
            for cut in 0..=text.len() {
                let (left, right) = text.as_bytes().split_at(cut);
                let data: Vec<_> = decode([left, right]).into_iter().map(|event| event.data).collect();
                assert_eq!(data, ["北京\n😀", "b"], "line end {end:?}, cut at {cut}");
            }
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::default();
        let chunk = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        assert_eq!(decoder.feed(&chunk, &mut Vec::new()), Ok(()));
        assert_eq!(decoder.feed(&chunk, &mut Vec::new()), Err(EventTooLarge));
    }

    fn stream_text() -> impl Strategy<Value = String> {
        let field = prop_oneof![
            Just("data: ".to_owned()),
            Just("data:".to_owned()),
            Just("data".to_owned()),
            Just("event: ".to_owned()),
            Just(": ".to_owned()),
            Just("retry: ".to_owned()),
            Just("other: ".to_owned()),
            Just(String::new()),
        ];
        let value = prop_oneof![Just(String::new()), "[a-z:{} é北😀]{0,12}"];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        let line = (field, value, end).prop_map(|(field, value, end)| match field.as_str() {
            "" | "data" => format!("{field}{end}"),
            _ => format!("{field}{value}{end}"),
        });
        prop::collection::vec(line, 0..24).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_events_of_the_reference_decoder(
            text in stream_text(),
            mark in prop_oneof![Just(""), Just("\u{feff}")],
            sizes in prop::collection::vec(1_usize..7, 1..12),
        ) {
            let text = format!("{text}\n\ndata: end\n\n");
            // The reference decoder cannot read a byte order mark, which changes nothing.
            let marked = format!("{mark}{text}");
            let mut chunks = Vec::new();
            let mut rest = marked.as_bytes();
            for size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let events: Vec<_> = decode(chunks).into_iter().map(|event| (event.name, event.data)).collect();
            prop_assert_eq!(events, oracle(&text));
        }
    }
}
