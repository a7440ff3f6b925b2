use super::*;

#[test]
fn the_host_names_its_port_unless_it_is_the_schemes_own() {
    for (url, host) in [
        ("http://a.example/mcp", "a.example"),
        ("http://a.example:80/mcp", "a.example"),
        ("https://a.example:443/mcp", "a.example"),
        ("https://a.example:80/mcp", "a.example:80"),
        ("http://[::1]:8080/mcp", "[::1]:8080"),
        ("http://user:word@a.example/mcp", "a.example"),
    ] {
        let url: Uri = url.parse().unwrap();
        assert_eq!(host_of(&url).unwrap(), host, "{url}");
    }
}
