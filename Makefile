# Thin over Meson: `make help` lists what it does.
MESON_RELEASE = build/release
MESON_SANITIZED = build/sanitized
MESON_FUZZ = build/fuzz
PREFIX ?= /usr/local
PROGRAMS = kaged kaged-spawner kaged-cage-init kaged-watch kaged-storage kaged-unpack kaged-snapshot kaged-model kaged-lua kaged-remote kaged-fetch kaged-link kaged-chat

.PHONY: help build run plugins test test-long test-programs release-objects screenshots bench bench-growth bench-guard bench-programs docs fuzz lint install uninstall deb clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

build: ## release programs into build/bin/
	@scripts/setup build
	@scripts/configure $(MESON_RELEASE) --prefix=$(PREFIX)
	@scripts/compile $(MESON_RELEASE)
	@mkdir -p build/bin
	@cd $(MESON_RELEASE)/src && install -m 755 $(PROGRAMS) $(CURDIR)/build/bin/
	@install -D -m 755 -t build/lib/kaged/system-plugins $(MESON_RELEASE)/system-plugins/*.so
	@scripts/share
	@scripts/plugins || echo "make: without these plugins" >&2

plugins: ## the reference plugins with their SDKs, into build/share/kaged/plugins/
	@scripts/plugins

run: build ## start a daemon here with a caged plugin, and call it
	@scripts/run

test: test-programs release-objects ## everything, under ASan and UBSan; of what takes long, a sample
	@tests/run $(MESON_SANITIZED)

test-long: test-programs release-objects ## the same with all of what takes long
	@tests/run --long $(MESON_SANITIZED)

test-programs:
	@scripts/setup build test
	@scripts/npm tests && scripts/npm tests/mcp || echo "make: tests that need packages of npm are skipped" >&2
	@scripts/configure $(MESON_SANITIZED) -Db_sanitize=address,undefined -Db_lundef=false -Dtests=true -Dbuildtype=debugoptimized
	@scripts/compile $(MESON_SANITIZED)
	@scripts/share
	@scripts/plugins || echo "make: tests of these plugins are skipped" >&2

# A release build warns of what the one for tests does not, and the other way round: both have none.
release-objects:
	@scripts/configure $(MESON_RELEASE) --prefix=$(PREFIX)
	@scripts/compile $(MESON_RELEASE)

screenshots: test-programs ## of the operator's page, into build/screenshots/
	@tests/screenshots build/screenshots

bench: bench-programs ## measure against peers, as ratios
	@bench/run

bench-growth: bench-programs ## measure how it grows: plugins, calls, bytes, sessions, log
	@bench/run --growth

bench-guard: build ## count the instructions of hot paths, against bench/guard.txt
	@scripts/setup bench
	@install -m 755 $(MESON_RELEASE)/bench/kaged-guard build/bin/
	@bench/guard

bench-programs: build
	@scripts/setup bench
	@install -m 755 $(MESON_RELEASE)/bench/kaged-bench build/bin/
	@$(MAKE) --no-print-directory -C bench/peers
	@scripts/npm bench/peers || echo "make: rows that need packages of npm are left out" >&2

docs: build ## the manual as a site with search, into build/site/
	@scripts/setup docs
	@scripts/docs $(MESON_RELEASE)/docs build/site

fuzz: ## each fuzzer for FUZZ_SECONDS (60)
	@scripts/setup build fuzz
	@CC=clang scripts/configure $(MESON_FUZZ) -Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=true -Dbuildtype=debugoptimized
	@scripts/compile $(MESON_FUZZ)
	@tests/fuzz/run $(MESON_FUZZ)

lint: ## clang-format, clang-tidy, cppcheck, layers, unused
	@scripts/setup build lint
	@scripts/configure $(MESON_RELEASE) --prefix=$(PREFIX)
	@scripts/lint $(MESON_RELEASE)

install: build ## install below DESTDIR and PREFIX
	@DESTDIR=$(DESTDIR) meson install -C $(MESON_RELEASE) --no-rebuild --quiet

uninstall: ## remove what the last install put there
	@ninja -C $(MESON_RELEASE) --quiet uninstall

deb: ## a Debian package into build/
	@scripts/setup build deb
	@scripts/deb

clean: ## remove build/
	@rm -rf build
