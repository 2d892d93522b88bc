class @CLASS@ < Formula
  desc "@SUMMARY@"
  homepage "https://github.com/mcp-servers/mcp-servers"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/mcp-servers/mcp-servers/releases/download/v@VERSION@/@NAME@-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256 @NAME@-@VERSION@-aarch64-apple-darwin.tar.gz@"
    end

    on_intel do
      url "https://github.com/mcp-servers/mcp-servers/releases/download/v@VERSION@/@NAME@-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256 @NAME@-@VERSION@-x86_64-apple-darwin.tar.gz@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/mcp-servers/mcp-servers/releases/download/v@VERSION@/@NAME@-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256 @NAME@-@VERSION@-aarch64-unknown-linux-gnu.tar.gz@"
    end

    on_intel do
      url "https://github.com/mcp-servers/mcp-servers/releases/download/v@VERSION@/@NAME@-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256 @NAME@-@VERSION@-x86_64-unknown-linux-gnu.tar.gz@"
    end
  end

  def install
    bin.install "@NAME@"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/@NAME@"
    zsh_completion.install "completions/_@NAME@"
    fish_completion.install "completions/@NAME@.fish"
  end

  service do
    run opt_bin/"@NAME@"
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/@NAME@ --version")
  end
end
