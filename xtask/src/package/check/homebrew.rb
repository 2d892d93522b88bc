# Installs a formula: FORMULA CLASS PREFIX FOLDER ARCH. Only what the formulae use is here.
require "digest"
require "fileutils"
require "pathname"

FORMULA, NAME, PREFIX, FOLDER, ARCH = ARGV

class Pathname
  def install(files)
    mkpath
    files = Array(files)
    raise "nothing to install in #{self}" if files.empty?

    FileUtils.install(files, to_s, mode: 0o755)
  end
end

class Formula
  class << self
    attr_reader :testing

    def desc(text)
      raise "desc: #{text}" if text.length >= 80 || text.end_with?(".")
    end

    def homepage(_) = nil
    def license(_) = nil
    def service(&) = nil
    def on_macos = nil
    def on_linux = yield
    def on_arm = (yield if ARCH == "aarch64")
    def on_intel = (yield if ARCH == "x86_64")
    def version(text = nil) = text ? @version = text : @version
    def url(text = nil) = text ? @url = text : @url
    def sha256(text = nil) = text ? @sha256 = text : @sha256
    def test(&block) = @testing = block
  end

  def version = self.class.version
  def bin = Pathname(PREFIX) / "bin"
  def man1 = Pathname(PREFIX) / "share/man/man1"
  def bash_completion = Pathname(PREFIX) / "etc/bash_completion.d"
  def zsh_completion = Pathname(PREFIX) / "share/zsh/site-functions"
  def fish_completion = Pathname(PREFIX) / "share/fish/vendor_completions.d"

  def shell_output(command)
    output = `#{command}`
    raise command unless $?.success?

    output
  end

  def assert_match(expected, actual)
    raise "#{actual} does not match #{expected}" unless actual.include?(expected)
  end
end

load FORMULA
formula = Object.const_get(NAME)
archive = File.join(FOLDER, File.basename(formula.url))
raise "another sum" unless Digest::SHA256.file(archive).hexdigest == formula.sha256

unpacked = "#{PREFIX}.unpacked"
FileUtils.mkpath(unpacked)
system("tar", "-xzf", archive, "--strip-components=1", "-C", unpacked, exception: true)
Dir.chdir(unpacked) { formula.new.install }
formula.new.instance_eval(&formula.testing)
