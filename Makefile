# Two commands do everything: `make run` and `make test`. Both install what is missing (Debian packages; as root or with sudo).

SHELL := /bin/bash

# libvirt is opened at run time (dlopen), so that the binary starts where it is not installed; cgo is needed all the same.
TAGS := libvirt_dlopen,libvirt_without_lxc,libvirt_without_qemu

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO_FILES := $(shell git ls-files '*.go' 2>/dev/null)

# Flags of the test runner: TESTFLAGS="-run TestName" narrows it, SEEDS=100000 widens the simulator.
TESTFLAGS ?=
TIMEOUT ?= 40m

.PHONY: run test lint bench build fmt tidy tools clean sim

build: bin/gateway

bin/gateway: $(GO_FILES) go.mod go.sum
	CGO_ENABLED=1 go build -tags $(TAGS) -ldflags "-X main.version=$(VERSION)" -o $@ ./cmd/gateway

.cache/bin/libvirtd-parent: hack/libvirtd/main.go go.mod
	go build -o $@ ./hack/libvirtd

# The quick-start documents on the libvirt of this machine. Ctrl-C ends the gateway and leaves the VMs as they are.
run:
	@hack/install-packages.sh run
	@$(MAKE) --no-print-directory build .cache/bin/libvirtd-parent
	@hack/run.sh bin/gateway .cache/bin/libvirtd-parent

# Everything: unit tests, the seeded simulator, end-to-end tests against real parts, with the race detector.
test:
	@hack/install-packages.sh test
	@$(MAKE) --no-print-directory tools build
	@hack/test.sh $(TAGS) $(TIMEOUT) $(TESTFLAGS)

# The simulator alone: make sim SEEDS=100000 [SEED=17]
sim:
	SIM_SEEDS=$(or $(SEEDS),2000) SIM_SEED=$(SEED) go test -tags $(TAGS) -count=1 -timeout 10h -run Seeds -v ./test/sim

lint:
	@test -z "$$(gofmt -l $(GO_FILES))" || { gofmt -l $(GO_FILES); echo "gofmt: run 'make fmt'"; exit 1; }
	go vet ./...
	go vet -tags $(TAGS) ./...
	go tool staticcheck -tags $(TAGS) ./...
	go mod tidy -diff

fmt:
	gofmt -w $(GO_FILES)

tidy:
	go mod tidy

# Prints one table; each row has its limit measured in the same run. Compares with bench/RESULTS.md.
bench:
	@hack/install-packages.sh test
	@$(MAKE) --no-print-directory tools build
	go run -tags $(TAGS) ./bench

# Third-party programs that the end-to-end tests talk to, built from their Go modules.
tools: .cache/bin/nats-server .cache/bin/nats

.cache/bin/nats-server: go.mod
	go build -o $@ github.com/nats-io/nats-server/v2

.cache/bin/nats:
	GOFLAGS= GOBIN=$(CURDIR)/.cache/bin go install github.com/nats-io/natscli/nats@v0.5.0

clean:
	rm -rf bin .cache
