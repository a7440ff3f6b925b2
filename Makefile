# Short names for commands; each command also works by itself.
.PHONY: build test lint format image cluster

build: ## the program, for this machine
	cargo build --release --locked

test: ## sets up what tests need, and runs them all
	tests/run

lint: ## what CI looks at before the tests
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

format:
	cargo fmt

image: ## target/mcpfleet.tar, without a container engine
	tests/cluster/operator-image.sh target/mcpfleet.tar

cluster: ## a shell in a real Kubernetes node (root)
	tests/cluster/build.sh
	tests/cluster/cluster.sh run $${SHELL:-bash}
