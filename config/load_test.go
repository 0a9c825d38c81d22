package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	return path
}

func TestWithoutAFileEveryKeyHasItsDefault(t *testing.T) {
	config, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, Default(), config)
	require.Equal(t, "127.0.0.1:8080", config.HTTP.Listen)
	require.Equal(t, "gateway", config.Policy.NATSPrefix)

	empty, err := Load(writeConfig(t, "# nothing\nhttp:\n  # listen: x\nnats:\n"), nil)
	require.NoError(t, err)
	require.Equal(t, config, empty)
}

func TestTheFileIsAboveTheDefaultsAndVariablesAreAboveTheFile(t *testing.T) {
	path := writeConfig(t, "resync: 1m\ndocuments: [a, b]\nhttp: {listen: \"127.0.0.1:1\"}\nnats: {prefix: home}\ndeletions: {max: 5%}\n")

	config, err := Load(path, []string{
		"GATEWAY_HTTP_LISTEN=127.0.0.1:2", "GATEWAY_DATA_DIR=/d", "GATEWAY_HTTP_TLS_CLIENT_CA=", "GATEWAY_STORE_ENGINE=memory", "GATEWAY_DELETIONS_FREE=3",
		"GATEWAY_ID=12", "GATEWAY_SERVER=unix:///x", "GATEWAY_PORT_8080_TCP=tcp://10.0.0.1:8080", "GATEWAY_SERVICE_HOST=10.0.0.1", "GATEWAY_DOCUMENTS=x", "HOME=/root", "odd",
	})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:2", config.HTTP.Listen)
	require.Equal(t, "/d", config.DataDir)
	require.Equal(t, "memory", config.Store.Engine)
	require.Equal(t, "12", config.ID)
	require.Equal(t, Deletions{Max: 5, Free: 3}, config.Deletions)
	require.Equal(t, time.Minute, config.Resync.Std())
	require.Equal(t, []string{"a", "b"}, config.Documents)
	require.Equal(t, "home", config.Policy.NATSPrefix)

	for _, name := range []string{"GATEWAY_DATADIR", "GATEWAY_DATA_DIR"} {
		config, err := Load("", []string{name + "=/x"})
		require.NoError(t, err)
		require.Equal(t, "/x", config.DataDir, name)
	}
}

func TestFaultsOfTheConfigurationNameTheirPlace(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		environ []string
		want    string
	}{
		"an unknown key":         {"http:\n  listne: x\n", nil, `PATH:2:3: unknown field "listne" in http: did you mean "listen"?`},
		"a wrong type":           {"resync: 5\n", nil, `PATH:1:9: resync: "5" is not a duration: write a number and a unit, as 250ms, 60s or 2h30m`},
		"an enum":                {"log: {level: warning}\n", nil, `PATH:1:14: log.level: "warning" is not one of debug, info, warn, error: did you mean "warn"?`},
		"a share":                {"deletions:\n  max: 25\n", nil, `PATH:2:8: deletions.max: "25" is not a share: write 25%, 0% to 100%`},
		"an address":             {"http: {listen: 8080}\n", nil, `PATH:1:16: http.listen: a string is needed, not the number "8080": put it in quotes`},
		"an address in quotes":   {"http: {listen: \"8080\"}\n", nil, `PATH:1:16: http.listen: "8080" is not an address to listen on, as 127.0.0.1:8080`},
		"a port":                 {"http: {listen: \":80800\"}\n", nil, `PATH:1:16: http.listen: "80800" is not a port between 0 and 65535`},
		"a prefix":               {"nats: {prefix: My.Home}\n", nil, `PATH:1:16: nats.prefix: "My.Home" is not a prefix: use 1 to 63 of a-z, 0-9 and '-'`},
		"two servers":            {"nats:\n  url: nats://b:4222\n  embedded:\n    listen: 127.0.0.1:1\n", nil, `PATH:4:13: nats.embedded.listen: give either nats.url or nats.embedded, not both`},
		"credentials for nobody": {"nats: {credentials: /c}\n", nil, `PATH:1:21: nats.credentials: only with nats.url; the embedded server has nats.embedded.tokenFile`},
		"too many credentials":   {"nats: {url: \"nats://b\", credentials: /c, nkey: /n}\n", nil, `PATH:1:1: nats: at most one of credentials, nkey and tokenFile is allowed`},
		"half of TLS":            {"http: {tls: {key: /k}}\n", nil, `PATH:1:8: http.tls: certificate and key belong together`},
		"several documents":      {"id: a\n---\nid: b\n", nil, `PATH:3:1: the configuration is one document, not several`},
		"broken syntax":          {"a: b\n c: d\n", nil, `PATH:2:3: mapping values are not allowed in this context`},
		"a relative policy":      {"policy: {paths: [images]}\n", nil, `PATH:1:18: policy.paths[0]: "images" is not an absolute path`},
		"a scheme of no NATS":    {"nats: {url: \"http://b:4222\"}\n", nil, `PATH:1:13: nats.url: "http" is no scheme of a NATS server: use one of nats, tls, ws, wss`},
		"a scheme of no image":   {"policy: {imageURLs: [https, ftp]}\n", nil, `PATH:1:29: policy.imageURLs[1]: "ftp" is neither a scheme nor a URL that images are fetched by, as https or http://127.0.0.1:8000/`},
		"a URL of no image":      {"policy: {imageURLs: [\"ftp://a/\"]}\n", nil, `PATH:1:22: policy.imageURLs[0]: "ftp://a/" is neither a scheme nor a URL that images are fetched by, as https or http://127.0.0.1:8000/`},
		"directories in one":     {"documents: [a/b, ./a]\n", nil, `PATH:1:13: documents[0]: a/b is taken already: it is within ./a, documents[1], which is read with all that is below it`},
		"a directory twice":      {"documents: [a, b, ./a/]\n", nil, `PATH:1:19: documents[2]: ./a/ is taken already: it is within a, documents[0], which is read with all that is below it`},
		"an image URL":           {"policy: {imageURLs: [\"http:/x\"]}\n", nil, `PATH:1:22: policy.imageURLs[0]: "http:/x" is neither a scheme nor a URL that images are fetched by, as https or http://127.0.0.1:8000/`},
		"a duplicate key":        {"id: a\nid: b\n", nil, `PATH:2:1: "id" is already given in line 1`},
		"a text that is a list":  {"- a\n", nil, `PATH:1:1: a mapping is needed, not the list`},
		"a variable's type":      {"", []string{"GATEWAY_DELETIONS_FREE=x"}, `GATEWAY_DELETIONS_FREE: deletions.free: a whole number is needed, not the string "x"`},
		"a variable's enum":      {"", []string{"GATEWAY_LOG_LEVEL=trace"}, `GATEWAY_LOG_LEVEL: log.level: "trace" is not one of debug, info, warn, error`},
		"a variable's value":     {"http: {listen: \":1\"}", []string{"GATEWAY_HTTP_LISTEN=x"}, `GATEWAY_HTTP_LISTEN: "x" is not an address to listen on, as 127.0.0.1:8080`},
		"two variables":          {"", []string{"GATEWAY_DATADIR=a", "GATEWAY_DATA_DIR=b"}, `GATEWAY_DATA_DIR: GATEWAY_DATADIR sets the same key to another value`},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeConfig(t, test.text)
			config, err := Load(path, test.environ)
			require.Nil(t, config)
			require.EqualError(t, err, strings.ReplaceAll(test.want, "PATH", path))
			require.IsType(t, Errors{}, err)
		})
	}
}

func TestAFileThatCantBeReadIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := Load(missing, nil)
	require.EqualError(t, err, missing+": the file does not exist")

	directory := t.TempDir()
	_, err = Load(directory, nil)
	require.EqualError(t, err, directory+": not a regular file")

	_, err = Load("", []string{"GATEWAY_RESYNC=0s"})
	require.EqualError(t, err, "GATEWAY_RESYNC: 0s is not between 1s and 24h")
}
