//! What a person can change where a server does not fit what its owner says of it. No IO.

use super::error::Error;
use super::pin::Pin;
use super::terms::HttpTransport;

/// `error` with what may be wrong in the manifest, if something there may be the cause.
pub(crate) fn advised(error: Error, pin: &Pin, transport: HttpTransport) -> Error {
    let advice = match (&error, pinned(pin)) {
        (Error::Revision(_), Some(name)) => Some(format!(
            "spec.protocol pins it to {name}, which is not among them: correct the version, or remove spec.protocol"
        )),
        (error, Some(name)) if error.may_come_of_the_era() => Some(format!(
            "spec.protocol pins it to {name}, which it may not speak: correct the version, or remove spec.protocol"
        )),
        _ => advice_on_transport(&error, transport)
            .or_else(|| advice_on_address(&error))
            .map(str::to_owned),
    };
    match advice {
        Some(advice) => Error::Advised {
            error: Box::new(error),
            advice,
        },
        None => error,
    }
}

fn pinned(pin: &Pin) -> Option<&str> {
    match pin {
        Pin::None => None,
        Pin::Modern(name) => Some(name),
        Pin::Legacy(revision) => Some(revision.as_str()),
    }
}

fn advice_on_transport(error: &Error, transport: HttpTransport) -> Option<&'static str> {
    let is_refused = matches!(error, Error::Status(400 | 404..=406 | 415) | Error::Unexpected { .. });
    match transport {
        HttpTransport::OldSse if is_refused || matches!(error, Error::Timeout { .. } | Error::Protocol(_)) => Some(
            "transport.type is SSE, the transport of 2024-11-05: if the server speaks Streamable HTTP, set it to \
             StreamableHTTP",
        ),
        HttpTransport::StreamableHttp if is_refused => Some(
            "transport.type is StreamableHTTP: if the server speaks the HTTP+SSE transport of 2024-11-05, set it to SSE",
        ),
        HttpTransport::Auto | HttpTransport::OldSse | HttpTransport::StreamableHttp => None,
    }
}

/// What to look at where no connection comes about; by the words of the system and of the TLS library.
fn advice_on_address(error: &Error) -> Option<&'static str> {
    const SIGNS: [(&str, &str); 6] = [
        (
            "Connection refused",
            "nothing listens there: check host and port, and whether the server runs",
        ),
        ("failed to lookup address", "check the name of the host"),
        (
            "InvalidContentType",
            "it does not speak TLS there: the address may have to begin with http://",
        ),
        (
            "UnknownIssuer",
            "its certificate is of an authority that is not known here",
        ),
        ("certificate not valid for name", "its certificate is for another host"),
        ("certificate expired", "its certificate has expired"),
    ];
    match error {
        Error::Connect(cause) => {
            let sign = SIGNS.into_iter().find(|(sign, _)| cause.contains(sign));
            sign.map(|(_, advice)| advice)
        }
        Error::Auth(401) => Some("check the headers that are sent to it, such as Authorization"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    fn told(error: Error, pin: &Pin, transport: HttpTransport) -> String {
        advised(error, pin, transport).to_string()
    }

    #[test]
    fn a_pin_that_does_not_fit_is_named_with_what_the_server_offers() {
        let pin = Pin::Legacy(Revision::V2025_03_26);
        assert_eq!(
            told(Error::Revision("2026-07-28".into()), &pin, HttpTransport::Auto),
            "no protocol revision in common; the server speaks 2026-07-28; spec.protocol pins it to 2025-03-26, which is \
             not among them: correct the version, or remove spec.protocol"
        );
        let pin = Pin::Modern("2027-01-01".into());
        let refused = told(Error::Refused("no".into()), &pin, HttpTransport::Auto);
        assert!(
            refused.contains("pins it to 2027-01-01, which it may not speak"),
            "{refused}"
        );
        for other in [Error::Auth(403), Error::Connect("gone".into()), Error::Status(503)] {
            assert_eq!(advised(other.clone(), &pin, HttpTransport::Auto), other);
        }
        assert!(!told(Error::Auth(401), &pin, HttpTransport::Auto).contains("pin"));
        for status in [401, 403] {
            assert!(advised(Error::Auth(status), &Pin::None, HttpTransport::Auto).wants_credentials());
        }
        let error = Error::Revision("2026-07-28".into());
        assert_eq!(advised(error.clone(), &Pin::None, HttpTransport::Auto), error);
    }

    #[test]
    fn where_no_connection_comes_about_it_is_told_what_to_look_at() {
        for (error, advice) in [
            (
                Error::Connect("Connection refused (os error 111)".into()),
                "check host and port",
            ),
            (
                Error::Connect("failed to lookup address information: Name or service not known".into()),
                "the name of the host",
            ),
            (
                Error::Connect("received corrupt message of type InvalidContentType".into()),
                "http://",
            ),
            (
                Error::Connect("invalid peer certificate: UnknownIssuer".into()),
                "authority",
            ),
            (Error::Auth(401), "Authorization"),
        ] {
            let told = told(error.clone(), &Pin::None, HttpTransport::Auto);
            assert!(told.starts_with(&error.to_string()) && told.contains(advice), "{told}");
        }
    }

    #[test]
    fn a_transport_that_does_not_fit_is_named_with_the_other_one() {
        let [sse, streamable] = [HttpTransport::OldSse, HttpTransport::StreamableHttp];
        let told = |error: Error, transport| told(error, &Pin::None, transport);
        let timeout = Error::Timeout {
            operation: "the event that says where to post",
            after: std::time::Duration::from_secs(5),
        };
        for error in [
            Error::Status(405),
            timeout.clone(),
            Error::Protocol("its stream ended".into()),
        ] {
            assert!(told(error, sse).ends_with("set it to StreamableHTTP"));
        }
        for error in [Error::Status(404), Error::Status(405)] {
            assert!(told(error, streamable).ends_with("set it to SSE"));
        }
        assert!(!told(timeout, streamable).contains("set it"));
        assert!(!told(Error::Status(405), HttpTransport::Auto).contains("set it"));
        assert_eq!(advised(Error::Status(405), &Pin::None, sse).reason(), "BadStatus");
    }
}
