//! Which template a URI may have come from.

/// Whether `uri` fits `template` (RFC 6570): each expression stands for one or more characters, slashes included, the
/// rest is literal, and the whole URI must fit. An opening brace without its closing one is literal.
pub fn matches(template: &str, uri: &str) -> bool {
    let (literal, rest) = match template.split_once('{') {
        Some((literal, rest)) if rest.contains('}') => (literal, rest.split_once('}').map(|(_, tail)| tail)),
        _ => (template, None),
    };
    let Some(uri) = uri.strip_prefix(literal) else {
        return false;
    };
    let Some(rest) = rest else { return uri.is_empty() };
    // The expression takes at least one character; where it ends is where the rest fits.
    uri.char_indices()
        .skip(1)
        .map(|(at, _)| at)
        .chain([uri.len()])
        .any(|at| {
            at > 0
                && uri
                    .get(at..)
                    .is_some_and(|tail| starts_alike(rest, tail) && matches(rest, tail))
        })
}

/// A cheap look ahead that keeps the search from trying every split: the next literal must stand here.
fn starts_alike(template: &str, uri: &str) -> bool {
    let literal = template.split('{').next().unwrap_or_default();
    uri.starts_with(literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_stand_for_one_or_more_characters_of_any_kind() {
        for (template, uri) in [
            ("demo://resource/{id}", "demo://resource/7"),
            ("file:///{path}", "file:///a/b/c"),
            ("a://{x}/{y}.txt", "a://1/2/3.txt"),
            ("a://fixed", "a://fixed"),
            ("a://{open", "a://{open"),
            ("a://{x}", "a://é"),
        ] {
            assert!(matches(template, uri), "{template} {uri}");
        }
        for (template, uri) in [
            ("demo://resource/{id}", "demo://resource/"),
            ("demo://resource/{id}", "demo://other/7"),
            ("a://{x}/end", "a://1/end/2"),
            ("a://fixed", "a://fixed/more"),
        ] {
            assert!(!matches(template, uri), "{template} {uri}");
        }
    }
}
