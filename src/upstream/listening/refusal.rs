//! What a server says that does not want to be listened to.

/// What a server's refusal says, as one line of bounded length.
pub(super) fn refusal_text(error: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Refusal {
        #[serde(default)]
        message: String,
    }
    let message = serde_json::from_str::<Refusal>(error)
        .unwrap_or(Refusal { message: String::new() })
        .message;
    let text: String = message.chars().filter(|c| !c.is_control()).take(200).collect();
    if text.is_empty() {
        "without a word".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_one_line() {
        assert_eq!(refusal_text(r#"{"code":1,"message":"no\nway"}"#), "noway");
        assert_eq!(refusal_text(r#"{"code":1}"#), "without a word");
    }
}
