//! What answers must be. Of what is the same each time the first is read whole, and the others are compared with it: so a
//! list costs this side as much as a static file does.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Args;
use crate::connection::Answer;

/// What the answers on a connection must be.
pub(crate) struct Expected<'a> {
    is_call: bool,
    text: Option<&'a str>,
    first: Option<Vec<u8>>,
}

impl<'a> Expected<'a> {
    /// What `args` ask for, before anything came.
    pub(crate) fn of(args: &'a Args) -> Self {
        let is_call = args.method == "tools/call";
        let text = Some(args.expect.as_str()).filter(|text| is_call && !text.is_empty());
        Self {
            is_call,
            text,
            first: None,
        }
    }

    /// Whether `answer` is the right one to the request with this id.
    pub(crate) fn check(&mut self, answer: &Answer, id: u64) -> Result<(), String> {
        if self.is_call || self.first.is_none() {
            read(answer, id, self.text)?;
        }
        if self.is_call {
            return Ok(());
        }
        let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        match answer.message.strip_prefix(start.as_bytes()) {
            Some(rest) => self.same(rest),
            None => read(answer, id, self.text),
        }
    }

    /// Whether `content` is what came the first time.
    pub(crate) fn same(&mut self, content: &[u8]) -> Result<(), String> {
        match &self.first {
            None => self.first = Some(content.to_vec()),
            Some(first) if first == content => {}
            Some(first) => {
                return Err(format!(
                    "{} bytes that are not the {} that came first",
                    content.len(),
                    first.len()
                ));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Response<'a> {
    id: Value,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    text: Option<std::borrow::Cow<'a, str>>,
}

/// Reads an answer whole: whether it is the one to the request with this id, and a call's text the expected one.
fn read(answer: &Answer, id: u64, expect: Option<&str>) -> Result<(), String> {
    let wrong = |what: &str| format!("{what}: {} {}", answer.status, String::from_utf8_lossy(&answer.message));
    let response: Response<'_> = serde_json::from_slice(&answer.message).map_err(|error| wrong(&error.to_string()))?;
    if response.id != id {
        return Err(wrong("wrong id"));
    }
    let result = response.result.ok_or_else(|| wrong("no result"))?;
    let Some(expect) = expect else {
        return Ok(());
    };
    let result: CallResult<'_> = serde_json::from_str(result.get()).map_err(|error| wrong(&error.to_string()))?;
    let text = result.content.first().and_then(|block| block.text.as_deref());
    if result.is_error || text != Some(expect) {
        return Err(wrong("unexpected result"));
    }
    Ok(())
}
