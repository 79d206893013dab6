# Thin: every target is a script that can be run without make.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check test-unit test-lab test-long test-vm test-driver bench docs clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## Install what is missing, once
	@sh scripts/setup.sh

demo: ## A practice rack from nothing to certified, broken and repaired
	@sh scripts/demo.sh

test: ## Every tier that this machine can run
	@sh scripts/test.sh

check: ## Linters and types
	@sh scripts/test.sh check

test-unit: ## Tests without nodes
	@sh scripts/test.sh unit

test-lab: ## Tests on practice nodes (root)
	@sh scripts/test.sh lab

test-long: ## Tests on practice nodes that take minutes each (root)
	@sh scripts/test.sh long

test-vm: ## Tests on virtual machines (root, QEMU; minutes with KVM)
	@sh scripts/test.sh vm

test-driver: ## The real NVIDIA packages, built on a practice node (root, network)
	@sh scripts/test_driver.sh

bench: setup ## Measurements of hfprov itself
	@for bench in tests/bench/bench_*.py; do echo "== $$bench"; .venv/bin/python "$$bench" || exit; done

docs: setup ## Write the generated parts of docs/
	@for part in docs role_docs parser_docs; do .venv/bin/python scripts/$$part.py || exit; done

clean: ## Remove caches and outputs; leaves .venv and racks alone
	@rm -rf .cache/test-results .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output dist build
