# Forwards to the build; `source envsetup.sh` first.
.PHONY: all install clean
all install:
	@tpulayer build_layers
clean:
	@tpulayer clean
